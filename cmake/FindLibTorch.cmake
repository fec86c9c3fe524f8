# Makes the target `libtorch` of the unpacked PyPI wheel, with two imported libraries behind it.
#
# The wheel's own find_package(Torch) needs a CUDA toolkit at configure time and fails with CMake 3.25 and C++20; a
# program that runs on a CPU needs only libtorch_cpu and libc10, whose RPATH finds the CUDA runtime beside them.
# Input: LIBTORCH_ROOT, the folder that holds include/ and lib/.
add_library(libtorch_c10 SHARED IMPORTED)
set_target_properties(libtorch_c10 PROPERTIES IMPORTED_LOCATION ${LIBTORCH_ROOT}/lib/libc10.so)
add_library(libtorch_cpu SHARED IMPORTED)
set_target_properties(libtorch_cpu PROPERTIES IMPORTED_LOCATION ${LIBTORCH_ROOT}/lib/libtorch_cpu.so)

add_library(libtorch INTERFACE)
target_link_libraries(libtorch INTERFACE libtorch_cpu libtorch_c10)
target_include_directories(libtorch SYSTEM INTERFACE
  ${LIBTORCH_ROOT}/include ${LIBTORCH_ROOT}/include/torch/csrc/api/include)
target_compile_definitions(libtorch INTERFACE _GLIBCXX_USE_CXX11_ABI=1 AT_PER_OPERATOR_HEADERS)
# at::parallel_for is a template in a header, so without OpenMP it would run on one thread.
# The wheel's own runtime is linked, so that there is one pool of threads.
target_compile_options(libtorch INTERFACE -fopenmp)
add_library(libtorch_gomp SHARED IMPORTED)
set_target_properties(libtorch_gomp PROPERTIES IMPORTED_LOCATION ${LIBTORCH_ROOT}/lib/libgomp.so.1)
target_link_libraries(libtorch INTERFACE libtorch_gomp)
# The CUDA runtime libraries are dependencies of libtorch_cpu that the linker need not see.
target_link_options(libtorch INTERFACE -Wl,--allow-shlib-undefined -Wl,-rpath,${LIBTORCH_ROOT}/lib)
