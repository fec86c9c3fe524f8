# Finds Debian's {fmt} as the target fmt::fmt.
#
# LibTorch's wheel brings headers of another {fmt} in its own include folder, which the compiler searches before the
# system's. FMT_FIRST is a folder that holds only the system's fmt/; rooms that use {fmt} search it before all others.
find_package(fmt 9 REQUIRED)
find_path(FMT_INCLUDE fmt/format.h NO_CACHE REQUIRED)
set(FMT_FIRST ${CMAKE_BINARY_DIR}/fmt_first)
file(MAKE_DIRECTORY ${FMT_FIRST})
file(CREATE_LINK ${FMT_INCLUDE}/fmt ${FMT_FIRST}/fmt SYMBOLIC)
