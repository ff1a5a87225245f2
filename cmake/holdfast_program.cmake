# SPDX-License-Identifier: Apache-2.0
# holdfast_program(NAME holdfast SOURCES main.cpp ... LIBS holdfast::sync fmt::fmt ... [INSTALL])
#   An executable.
#
# holdfast_example(NAME checkout SOURCES checkout.cpp LIBS holdfast::sync ...
#                  [LABELS unit] [EXPECT regex] [TIMEOUT 60] [ARGS ...])
#   A program example_<name> that is also a test: it must exit with 0, and print EXPECT.
#
# holdfast_bench(SOURCES mutex_bench.cpp ... [LIBS ...])
#   Sources of the one benchmark program, named where they are: beside what they measure.
#
# holdfast_bench_program(SOURCES main.cpp ... LIBS ...)
#   That program, holdfast_bench. Called once, after the modules, in benchmarks/CMakeLists.txt.
include_guard(GLOBAL)

function(holdfast_program)
  cmake_parse_arguments(PARSE_ARGV 0 arg "INSTALL" "NAME" "SOURCES;LIBS")
  add_executable(${arg_NAME} ${arg_SOURCES})
  holdfast_target_defaults(${arg_NAME})
  target_include_directories(${arg_NAME} PRIVATE "${PROJECT_SOURCE_DIR}/src"
                                                 "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS})
  if(arg_INSTALL AND HOLDFAST_INSTALL)
    install(TARGETS ${arg_NAME} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endfunction()

function(holdfast_example)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;EXPECT;TIMEOUT" "SOURCES;LIBS;LABELS;ARGS")
  holdfast_program(NAME example_${arg_NAME} SOURCES ${arg_SOURCES} LIBS ${arg_LIBS})
  # In a batch it would be taken for a header, which uses no names in the global namespace.
  set_property(TARGET example_${arg_NAME} PROPERTY UNITY_BUILD OFF)
  if(HOLDFAST_BUILD_TESTS)
    set(command $<TARGET_FILE:example_${arg_NAME}> ${arg_ARGS})
    if(arg_EXPECT)
      set(command "${holdfast_expect}" --exit 0 --message "${arg_EXPECT}" -- ${command})
    endif()
    add_test(NAME example_${arg_NAME} COMMAND ${command})
    holdfast_test_properties(example_${arg_NAME} LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT})
  endif()
endfunction()

function(holdfast_bench)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "SOURCES;LIBS")
  list(TRANSFORM arg_SOURCES PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  set_property(GLOBAL APPEND PROPERTY holdfast_bench_sources ${arg_SOURCES})
  set_property(GLOBAL APPEND PROPERTY holdfast_bench_libs ${arg_LIBS})
endfunction()

function(holdfast_bench_program)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "SOURCES;LIBS")
  get_property(sources GLOBAL PROPERTY holdfast_bench_sources)
  get_property(libs GLOBAL PROPERTY holdfast_bench_libs)
  holdfast_program(NAME holdfast_bench SOURCES ${arg_SOURCES} ${sources} LIBS ${arg_LIBS} ${libs})
  set_property(TARGET holdfast_bench PROPERTY UNITY_BUILD OFF)
endfunction()
