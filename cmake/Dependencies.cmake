# Small torch-free libraries. Each is taken from the system or CMAKE_PREFIX_PATH, then from the
# packages that scripts/setup.sh unpacked into .deps/sysroot, and where no package of it is found, or
# only an older one, built from its pinned source (cmake/Archives.cmake).
option(TRAINCTL_SYSTEM_LIBRARIES "Look for installed packages of the small libraries first" ON)
include(Archives)
include(FetchContent)
find_package(Threads REQUIRED)

if(TRAINCTL_SYSTEM_LIBRARIES AND EXISTS ${TRAINCTL_DEPS_DIR}/sysroot/usr)
  list(APPEND CMAKE_PREFIX_PATH ${TRAINCTL_DEPS_DIR}/sysroot/usr)
endif()

# trainctl_dependency(PACKAGE MINIMUM_VERSION ARCHIVE): find_package, or the pinned source.
macro(trainctl_dependency package minimum archive)
  if(TRAINCTL_SYSTEM_LIBRARIES)
    find_package(${package} ${minimum} QUIET)
  endif()
  if(${package}_FOUND)
    message(STATUS "${package} ${${package}_VERSION}: ${${package}_DIR}")
  else()
    trainctl_archive(${archive} archive_path archive_version)
    message(STATUS "${package} ${archive_version}: from source")
    FetchContent_Declare(${archive} SYSTEM URL ${archive_path})
    FetchContent_MakeAvailable(${archive})
  endif()
endmacro()

set(JSON_BuildTests OFF CACHE INTERNAL "")
set(JSON_Install OFF CACHE INTERNAL "")
set(CLI11_BUILD_TESTS OFF CACHE INTERNAL "")
set(CLI11_BUILD_EXAMPLES OFF CACHE INTERNAL "")
set(CLI11_BUILD_DOCS OFF CACHE INTERNAL "")
set(CLI11_INSTALL OFF CACHE INTERNAL "")
set(SPDLOG_INSTALL OFF CACHE INTERNAL "")
set(INSTALL_GTEST OFF CACHE INTERNAL "")
cmake_policy(SET CMP0135 NEW)

trainctl_dependency(nlohmann_json 3.11 json)
trainctl_dependency(CLI11 2.1 CLI11)
trainctl_dependency(spdlog 1.10 spdlog)

# Header-only spdlog and fmt: the packaged shared libspdlog would bring its own floor of libstdc++.
add_library(trainctl_spdlog INTERFACE)
add_library(trainctl::spdlog ALIAS trainctl_spdlog)
target_link_libraries(trainctl_spdlog INTERFACE spdlog::spdlog_header_only)

# xxHash is one header, included with XXH_INLINE_ALL.
if(TRAINCTL_SYSTEM_LIBRARIES)
  find_path(TRAINCTL_XXHASH_INCLUDE xxhash.h)
endif()
if(NOT TRAINCTL_XXHASH_INCLUDE)
  trainctl_archive(xxHash archive_path archive_version)
  message(STATUS "xxHash ${archive_version}: from source")
  FetchContent_Declare(xxHash URL ${archive_path} SOURCE_SUBDIR headers_only)
  FetchContent_MakeAvailable(xxHash)
  FetchContent_GetProperties(xxHash SOURCE_DIR TRAINCTL_XXHASH_INCLUDE)
endif()
add_library(trainctl_xxhash INTERFACE)
add_library(trainctl::xxhash ALIAS trainctl_xxhash)
target_include_directories(trainctl_xxhash SYSTEM INTERFACE ${TRAINCTL_XXHASH_INCLUDE})

set(TRAINCTL_BUILD_TESTS ${TRAINCTL_TESTS})
if(TRAINCTL_TESTS STREQUAL "AUTO")
  find_package(GTest QUIET)
  set(TRAINCTL_BUILD_TESTS ${GTest_FOUND})
elseif(TRAINCTL_TESTS)
  trainctl_dependency(GTest 1.11 googletest)
endif()
