# What `cmake --install` puts where: libraries, headers, the command line, the CMake package `dlprim` with the targets
# dlprim::core and (DLPRIM_NET) dlprim::net and dlprim::onnx, and pkg-config files. Everything is relocatable: no file
# holds the prefix.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/dlprim")
set(libraries core)
set(other_headers PATTERN "net*.hpp" EXCLUDE PATTERN "solver.hpp" EXCLUDE PATTERN "safetensors.hpp" EXCLUDE
    PATTERN "onnx.hpp" EXCLUDE)
if(DLPRIM_NET)
  list(APPEND libraries net onnx)
  set(other_headers)
endif()
list(TRANSFORM libraries PREPEND dlprim_ OUTPUT_VARIABLE targets)
foreach(library IN LISTS libraries)
  set_target_properties(dlprim_${library} PROPERTIES EXPORT_NAME ${library} INSTALL_RPATH "$ORIGIN")
endforeach()

install(
  TARGETS ${targets}
  EXPORT dlprimTargets
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY include/dlprim DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.hpp"
        ${other_headers})
install(EXPORT dlprimTargets NAMESPACE dlprim:: DESTINATION "${package_dir}")

set(dlprim_static_sqlite OFF)
set(dlprim_private_libraries "-pthread")
if(CMAKE_DL_LIBS)
  string(APPEND dlprim_private_libraries " -l${CMAKE_DL_LIBS}")
endif()
if(SQLite3_FOUND AND NOT BUILD_SHARED_LIBS)
  set(dlprim_static_sqlite ON)
  string(PREPEND dlprim_private_libraries "-lsqlite3 ")
endif()
configure_package_config_file(cmake/dlprimConfig.cmake.in "${PROJECT_BINARY_DIR}/dlprimConfig.cmake"
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/dlprimConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/dlprimConfig.cmake" "${PROJECT_BINARY_DIR}/dlprimConfigVersion.cmake"
        DESTINATION "${package_dir}")

# The prefix as seen from a file's folder, for files that find their neighbours.
function(dlprim_path_to_prefix folder result)
  file(RELATIVE_PATH path "/prefix/${folder}" "/prefix")
  string(REGEX REPLACE "/$" "" path "${path}")
  set(${result} "${path}" PARENT_SCOPE)
endfunction()

dlprim_path_to_prefix("${CMAKE_INSTALL_LIBDIR}/pkgconfig" pkgconfig_to_prefix)
foreach(library IN LISTS libraries)
  configure_file(cmake/dlprim-${library}.pc.in "${PROJECT_BINARY_DIR}/dlprim-${library}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/dlprim-${library}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()

install(TARGETS dlprim-compiler RUNTIME DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/dlprim")
if(TARGET dlprim)
  dlprim_path_to_prefix("${CMAKE_INSTALL_BINDIR}" bin_to_prefix)
  set_target_properties(dlprim PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_prefix}/${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS dlprim RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
