# SPDX-License-Identifier: Apache-2.0
# holdfast_test(NAME sync_mutex SOURCES mutex_test.cpp ... LIBS holdfast::sync ...
#               [LABELS unit] [TIMEOUT 60] [PROCESSORS 1] [ARGS ...])
#   A GoogleTest executable <name>_test and one ctest entry <name>. Label it also `timing` when it
#   measures real time: the sanitizer runs leave it out.
#
# holdfast_refuses(NAME x SOURCE bad.cpp MESSAGE regex [COMPILER GNU] [FLAGS ...])
#   A test that passes only if the file does not compile and the compiler says MESSAGE (a Python
#   regular expression). With COMPILER, only for that CMAKE_CXX_COMPILER_ID.
include_guard(GLOBAL)
find_package(GTest REQUIRED)
find_package(rapidcheck REQUIRED)
find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)

set(holdfast_expect "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tools/expect")

# One precompiled header, made once, for all tests. It belongs to a program because g++ refuses a
# header that was compiled for a library (-fPIC) in a program (-fPIE).
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/test_pch.cpp" CONTENT "// Carries the header.\n")
add_executable(holdfast_test_pch "${PROJECT_BINARY_DIR}/test_pch.cpp")
holdfast_target_defaults(holdfast_test_pch)
target_link_libraries(holdfast_test_pch PRIVATE GTest::gmock_main)
target_precompile_headers(
  holdfast_test_pch
  PRIVATE
  <gmock/gmock.h>
  <gtest/gtest.h>
  <algorithm>
  <atomic>
  <chrono>
  <coroutine>
  <functional>
  <memory>
  <optional>
  <random>
  <stop_token>
  <string>
  <thread>
  <vector>)

function(holdfast_test_properties name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;PROCESSORS" "LABELS")
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(NOT arg_PROCESSORS)
    set(arg_PROCESSORS 1)
  endif()
  if(HOLDFAST_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 10")
  endif()
  set(asan "detect_stack_use_after_return=1:strict_init_order=1:check_initialization_order=1")
  set_tests_properties(
    ${name}
    PROPERTIES
      LABELS "${arg_LABELS}"
      TIMEOUT "${arg_TIMEOUT}"
      PROCESSORS "${arg_PROCESSORS}"
      ENVIRONMENT
      "ASAN_OPTIONS=${asan};UBSAN_OPTIONS=print_stacktrace=1;TSAN_OPTIONS=second_deadlock_stack=1")
endfunction()

function(holdfast_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;TIMEOUT;PROCESSORS" "SOURCES;LIBS;LABELS;ARGS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME)
    message(FATAL_ERROR "holdfast_test: cannot read '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  set(target ${arg_NAME}_test)
  holdfast_program(NAME ${target} SOURCES ${arg_SOURCES} LIBS ${arg_LIBS} GTest::gmock_main)
  target_precompile_headers(${target} REUSE_FROM holdfast_test_pch)
  add_test(NAME ${arg_NAME} COMMAND ${target} --gtest_brief=1 ${arg_ARGS})
  holdfast_test_properties(${arg_NAME} LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT}
                           PROCESSORS ${arg_PROCESSORS})
endfunction()

function(holdfast_refuses)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;SOURCE;MESSAGE;COMPILER" "FLAGS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_SOURCE OR NOT arg_MESSAGE)
    message(FATAL_ERROR "holdfast_refuses: NAME, SOURCE and MESSAGE are needed")
  endif()
  if(arg_COMPILER AND NOT arg_COMPILER STREQUAL CMAKE_CXX_COMPILER_ID)
    return()
  endif()
  add_test(
    NAME refuses_${arg_NAME}
    COMMAND
      ${holdfast_expect} --message "${arg_MESSAGE}" -- "${CMAKE_CXX_COMPILER}" -std=c++20
      -fsyntax-only "-I${PROJECT_SOURCE_DIR}/include" "-I${PROJECT_SOURCE_DIR}/src" ${arg_FLAGS}
      "${CMAKE_CURRENT_SOURCE_DIR}/${arg_SOURCE}")
  holdfast_test_properties(refuses_${arg_NAME} LABELS unit)
endfunction()
