# SPDX-License-Identifier: Apache-2.0
# Install rules: the CMake package `holdfast` with one component per module, and pkg-config files.
include_guard(GLOBAL)
include(CMakePackageConfigHelpers)

set(holdfast_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/holdfast)
get_property(modules GLOBAL PROPERTY holdfast_modules)

# The modules come in the order of their definition: what a module needs stands before it.
set(HOLDFAST_COMPONENTS "${modules}")
set(HOLDFAST_DEFAULT_COMPONENTS "")
set(HOLDFAST_COMPONENT_TABLE "")
foreach(module IN LISTS modules)
  get_property(depends GLOBAL PROPERTY holdfast_${module}_depends)
  get_property(packages GLOBAL PROPERTY holdfast_${module}_packages)
  get_property(optional GLOBAL PROPERTY holdfast_${module}_optional)
  string(APPEND HOLDFAST_COMPONENT_TABLE "set(_holdfast_${module}_depends \"${depends}\")\n"
         "set(_holdfast_${module}_packages \"${packages}\")\n")
  if(NOT optional)
    list(APPEND HOLDFAST_DEFAULT_COMPONENTS ${module})
  endif()
  install(
    EXPORT holdfast_${module}
    NAMESPACE holdfast::
    FILE holdfast-${module}-targets.cmake
    DESTINATION ${holdfast_package_dir})
endforeach()

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/package_config.cmake.in" "${PROJECT_BINARY_DIR}/holdfastConfig.cmake"
  INSTALL_DESTINATION ${holdfast_package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/holdfastConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/holdfastConfig.cmake"
              "${PROJECT_BINARY_DIR}/holdfastConfigVersion.cmake"
        DESTINATION ${holdfast_package_dir})
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Sets `out` to the linker flags of `module` and all it stands on, users first.
function(holdfast_link_flags module out)
  get_property(depends GLOBAL PROPERTY holdfast_${module}_depends)
  get_target_property(type holdfast_${module} TYPE)
  set(flags "")
  if(type STREQUAL "STATIC_LIBRARY")
    set(flags -lholdfast_${module})
  endif()
  foreach(used IN LISTS depends)
    holdfast_link_flags(${used} below)
    list(APPEND flags ${below})
  endforeach()
  # What others stand on goes last, so of equal flags the last one stays.
  list(REVERSE flags)
  list(REMOVE_DUPLICATES flags)
  list(REVERSE flags)
  set(${out} "${flags}" PARENT_SCOPE)
endfunction()

function(holdfast_pkg_config name module description)
  holdfast_link_flags(${module} flags)
  list(JOIN flags " " flags)
  file(RELATIVE_PATH to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" to_prefix "${to_prefix}")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/pkg_config.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc"
                 @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

holdfast_pkg_config(holdfast holdfast "${PROJECT_DESCRIPTION}")
holdfast_pkg_config(holdfast-sync sync "${PROJECT_DESCRIPTION}: the in-process primitives")
