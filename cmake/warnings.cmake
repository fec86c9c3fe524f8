add_library(warnings INTERFACE)
target_compile_options(warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wno-unused-parameter)
if(DRAFTSMITH_WERROR)
  target_compile_options(warnings INTERFACE -Werror)
endif()
