# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts down: the tool, the runtime library, their headers, and the package that
# find_package(kdagen) reads. A static build (KDAGEN_STATIC) needs nothing else on the other machine.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
if(TARGET kdagen)
  install(TARGETS kdagen RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(TARGETS kdagen_runtime_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY dsl/include/ runtime/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/kdagen)
configure_package_config_file(cmake/kdagenConfig.cmake.in ${CMAKE_BINARY_DIR}/kdagenConfig.cmake
  INSTALL_DESTINATION ${package_folder} PATH_VARS CMAKE_INSTALL_BINDIR CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/kdagenConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/kdagenConfig.cmake ${CMAKE_BINARY_DIR}/kdagenConfigVersion.cmake cmake/KdagenKernels.cmake
  cmake/EmbedKernels.cmake DESTINATION ${package_folder})
