# One folder is one library, its tests and its benches.
#
#   room(store DEPS base)      src/draftsmith/store/*.cc         -> library draftsmith_store
#                              src/draftsmith/store/*_test.cc    -> program store_test, its cases known to ctest
#                              src/draftsmith/store/*_bench.cc   -> program store_bench
# DEPS are the rooms it may include (tests/arch holds the #include lines to the same list), LIBS the libraries from
# outside, TEST_DEPS what only its tests link.
include(GoogleTest)

# Tells ctest the cases of a test program. Cases that judge time or memory are in suites whose names end in Bars; they
# run alone, and only when asked for (test.sh --bars). ARGN are further properties.
function(discover_tests program label timeout)
  gtest_discover_tests(${program} DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES TEST_FILTER "-*Bars.*"
                       TEST_LIST ${program}_cases PROPERTIES LABELS ${label} TIMEOUT ${timeout} ${ARGN})
  gtest_discover_tests(${program} DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES TEST_FILTER "*Bars.*"
                       TEST_LIST ${program}_bars PROPERTIES LABELS bars RUN_SERIAL ON TIMEOUT ${timeout} ${ARGN})
endfunction()

function(room name)
  cmake_parse_arguments(ROOM "" "" "DEPS;LIBS;PRIVATE_LIBS;TEST_DEPS" ${ARGN})
  set(folder ${CMAKE_SOURCE_DIR}/src/draftsmith/${name})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc ${folder}/*/*.cc)
  file(GLOB tests CONFIGURE_DEPENDS ${folder}/*_test.cc ${folder}/*/*_test.cc)
  file(GLOB benches CONFIGURE_DEPENDS ${folder}/*_bench.cc ${folder}/*/*_bench.cc)
  list(FILTER benches EXCLUDE REGEX "/cmd_bench.cc$")  # this is the command, not a bench of the room
  list(REMOVE_ITEM sources ${tests} ${benches} ${folder}/main.cc)
  list(TRANSFORM ROOM_DEPS PREPEND draftsmith_)
  list(TRANSFORM ROOM_TEST_DEPS PREPEND draftsmith_)

  if(sources)
    add_library(draftsmith_${name} STATIC ${sources})
    target_include_directories(draftsmith_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(draftsmith_${name} PUBLIC ${ROOM_DEPS} ${ROOM_LIBS} PRIVATE ${ROOM_PRIVATE_LIBS} warnings)
    if("fmt::fmt" IN_LIST ROOM_PRIVATE_LIBS)
      target_include_directories(draftsmith_${name} SYSTEM BEFORE PRIVATE ${FMT_FIRST})
    endif()
  else()
    add_library(draftsmith_${name} INTERFACE)
    target_include_directories(draftsmith_${name} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(draftsmith_${name} INTERFACE ${ROOM_DEPS} ${ROOM_LIBS})
  endif()

  if(tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE
      draftsmith_${name} ${ROOM_TEST_DEPS} ${ROOM_PRIVATE_LIBS} GTest::gtest_main warnings)
    target_compile_definitions(${name}_test PRIVATE
      DRAFTSMITH_SOURCE_DIR="${CMAKE_SOURCE_DIR}" DRAFTSMITH_DEPS_DIR="${DRAFTSMITH_DEPS}")
    discover_tests(${name}_test unit 600)
  endif()
  if(benches)
    add_executable(${name}_bench ${benches})
    target_link_libraries(${name}_bench PRIVATE draftsmith_${name} ${ROOM_TEST_DEPS} benchmark::benchmark_main warnings)
  endif()
endfunction()
