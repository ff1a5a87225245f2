# SPDX-License-Identifier: Apache-2.0
# Compiler flags of our own targets: holdfast_target_defaults(TARGET).
#
# They are set target by target, so a project that adds Holdfast as a subdirectory keeps its own.
# Only sanitizers are global: every object of a program must agree on them.
include_guard(GLOBAL)
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()

  # ccache has to be told to trust precompiled headers, and that another clone is the same source.
  find_program(HOLDFAST_CCACHE ccache)
  find_program(HOLDFAST_ENV env)
  mark_as_advanced(HOLDFAST_CCACHE HOLDFAST_ENV)
  if(HOLDFAST_CCACHE AND HOLDFAST_ENV AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER
        "${HOLDFAST_ENV}" "CCACHE_SLOPPINESS=pch_defines,time_macros"
        "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" "CCACHE_ABSSTDERR=1" "${HOLDFAST_CCACHE}")
  endif()

  # __FILE__ and std::source_location say src/sync/mutex.cpp, wherever the tree is; ccache hands the
  # compiler paths relative to the build folder.
  file(RELATIVE_PATH to_source "${PROJECT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}")
  add_compile_options("-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/="
                      "-fmacro-prefix-map=${to_source}=")
endif()

if(HOLDFAST_SANITIZE)
  add_compile_options(-fsanitize=${HOLDFAST_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${HOLDFAST_SANITIZE})
endif()

set(holdfast_warnings
    -Wall
    -Wextra
    -Wpedantic
    -Wshadow
    -Wconversion
    -Wsign-conversion
    -Wdouble-promotion
    -Wnon-virtual-dtor
    -Wold-style-cast
    -Woverloaded-virtual
    -Wcast-align
    -Wcast-qual
    -Wextra-semi
    -Wformat=2
    -Wimplicit-fallthrough
    -Wredundant-decls
    -Wundef
    -Wunused)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND holdfast_warnings -Wduplicated-cond -Wlogical-op -Wsuggest-override)
  if(CMAKE_UNITY_BUILD)
    # In a batch a source file is an included one, and g++ takes its local types for a header's.
    list(APPEND holdfast_warnings -Wno-subobject-linkage)
  endif()
  if(HOLDFAST_SANITIZE)
    # The instrumented code leads the flow analysis astray.
    list(APPEND holdfast_warnings -Wno-maybe-uninitialized)
  endif()
elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  list(APPEND holdfast_warnings -Winconsistent-missing-override -Wthread-safety
       -Wunreachable-code-loop-increment)
endif()

# Flags that change what the preprocessor or the code generator does are the same for every target
# of a build, so that the tests can share one precompiled header.
function(holdfast_target_defaults target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(
    ${target}
    PRIVATE ${holdfast_warnings} $<$<BOOL:${HOLDFAST_WERROR}>:-Werror>
            $<$<NOT:$<CONFIG:Debug>>:-fstack-protector-strong>
            $<$<NOT:$<CONFIG:Debug>>:-fstack-clash-protection>)
  target_compile_definitions(
    ${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:_FORTIFY_SOURCE=2>
                      $<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    target_link_options(${target} PRIVATE -Wl,-z,relro -Wl,-z,now)
  endif()
endfunction()
