# SPDX-License-Identifier: Apache-2.0
# holdfast_records(store           the module
#                  lease.proto)    in its folder records/
#
# Records that outlive the code: from a schema, with a runtime that keeps fields it does not know.
# Their classes, <lease.pb.h>, are the module's own, and its tests'.
include_guard(GLOBAL)

function(holdfast_records module)
  set(target holdfast_${module})
  foreach(proto IN LISTS ARGN)
    get_filename_component(name ${proto} NAME_WE)
    set(record "${CMAKE_CURRENT_BINARY_DIR}/${name}.pb")
    add_custom_command(
      OUTPUT ${record}.cc ${record}.h
      COMMAND protobuf::protoc --proto_path=records --cpp_out=${CMAKE_CURRENT_BINARY_DIR} ${proto}
      DEPENDS records/${proto}
      WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
      COMMENT "Generating ${name}.pb.cc")
    target_sources(${target} PRIVATE ${record}.cc ${record}.h)
    set_source_files_properties(${record}.cc PROPERTIES COMPILE_OPTIONS -w)
  endforeach()
  target_include_directories(${target} SYSTEM PRIVATE "${CMAKE_CURRENT_BINARY_DIR}")
endfunction()
