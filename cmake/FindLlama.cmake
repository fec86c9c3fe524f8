# Makes the target `llama_cpp` of llama.cpp's static libraries, as setup.sh built them.
# Input: LLAMA_SOURCE and LLAMA_BUILD.
add_library(llama_cpp INTERFACE)
set(_llama_libraries
  ${LLAMA_BUILD}/common/libllama-common.a ${LLAMA_BUILD}/common/libllama-common-base.a
  ${LLAMA_BUILD}/vendor/cpp-httplib/libcpp-httplib.a
  ${LLAMA_BUILD}/src/libllama.a ${LLAMA_BUILD}/ggml/src/libggml.a ${LLAMA_BUILD}/ggml/src/libggml-cpu.a
  ${LLAMA_BUILD}/ggml/src/libggml-base.a)
foreach(_library ${_llama_libraries})
  if(NOT EXISTS ${_library})
    message(FATAL_ERROR "llama.cpp is not built: ${_library} is missing; run ./setup.sh first")
  endif()
endforeach()
find_package(Threads REQUIRED)
target_link_libraries(llama_cpp INTERFACE
  -Wl,--start-group llama_switch ${_llama_libraries} -Wl,--end-group Threads::Threads gomp ${CMAKE_DL_LIBS})
# Block passes must round as single passes do (see llama_switch.h).
add_library(llama_switch STATIC ${CMAKE_SOURCE_DIR}/src/llama_switch/llama_switch.c)
target_include_directories(llama_switch PUBLIC ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(llama_cpp INTERFACE -Wl,--wrap=llamafile_sgemm)
target_include_directories(llama_cpp SYSTEM INTERFACE ${LLAMA_SOURCE}/include ${LLAMA_SOURCE}/ggml/include)
# This target gives parts of llama.cpp that are not its public interface, such as the chat-template engine (common/).
# Only the room text and llama.cpp's own decoder link it.
add_library(llama_cpp_internal INTERFACE)
target_link_libraries(llama_cpp_internal INTERFACE llama_cpp)
target_include_directories(llama_cpp_internal SYSTEM INTERFACE
  ${LLAMA_SOURCE}/common ${LLAMA_SOURCE}/vendor ${LLAMA_SOURCE}/src)

# llama.cpp's own speculative decoder is the client that the tests and the demo check exports with. It is linked with
# the switch, as we are.
add_executable(llama-speculative-simple ${LLAMA_SOURCE}/examples/speculative-simple/speculative-simple.cpp)
target_link_libraries(llama-speculative-simple PRIVATE llama_cpp_internal)
