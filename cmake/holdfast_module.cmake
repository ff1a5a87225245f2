# SPDX-License-Identifier: Apache-2.0
# holdfast_module(NAME base
#                 HEADERS error.hpp ...       below include/holdfast/
#                 SOURCES error.cpp ...       beside the CMakeLists.txt
#                 DEPENDS base ...            modules
#                 LIBS Threads::Threads ...   other libraries, part of the interface
#                 PACKAGES Threads ...        what find_dependency() needs for LIBS,
#                                             "Boost 1.81" with a version
#                 [OPTIONAL])                 in the package, loaded only when it is asked for
#
# Makes the static library holdfast_<name> (an interface library when there is no source) with the
# alias holdfast::<name>. tools/check_includes reads these calls: one call per module, plain lists.
include_guard(GLOBAL)
include(GNUInstallDirs)

function(holdfast_module)
  cmake_parse_arguments(PARSE_ARGV 0 arg "OPTIONAL" "NAME" "HEADERS;SOURCES;DEPENDS;LIBS;PACKAGES")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME)
    message(FATAL_ERROR "holdfast_module: cannot read '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  set(target holdfast_${arg_NAME})
  set(headers ${arg_HEADERS})
  list(TRANSFORM headers PREPEND "${PROJECT_SOURCE_DIR}/include/holdfast/")
  set(modules ${arg_DEPENDS})
  list(TRANSFORM modules PREPEND "holdfast::")

  if(arg_SOURCES)
    set(scope PUBLIC)
    add_library(${target} STATIC ${arg_SOURCES})
    holdfast_target_defaults(${target})
    # Position independent, as users may link it into a shared library, yet free to inline.
    target_compile_options(${target} PRIVATE -fno-semantic-interposition)
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
    target_compile_features(${target} INTERFACE cxx_std_20)
  endif()
  add_library(holdfast::${arg_NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${arg_NAME})
  target_sources(
    ${target} ${scope} FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${headers})
  target_link_libraries(${target} ${scope} ${modules} ${arg_LIBS})

  set_property(GLOBAL APPEND PROPERTY holdfast_modules ${arg_NAME})
  set_property(GLOBAL PROPERTY holdfast_${arg_NAME}_depends "${arg_DEPENDS}")
  set_property(GLOBAL PROPERTY holdfast_${arg_NAME}_packages "${arg_PACKAGES}")
  set_property(GLOBAL PROPERTY holdfast_${arg_NAME}_optional "${arg_OPTIONAL}")
  if(HOLDFAST_INSTALL)
    install(
      TARGETS ${target}
      EXPORT holdfast_${arg_NAME}
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
      FILE_SET HEADERS
      DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  endif()
endfunction()
