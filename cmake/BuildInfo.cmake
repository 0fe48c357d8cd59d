# trainctl_build_info.h with TRAINCTL_VERSION and TRAINCTL_BUILD_ID, included into src/base/version.cpp
# alone: a new commit recompiles one small file and links the units again, nothing more.
#
# The id is the same in all units of one build: the commit, and a hash over what two units must agree
# on (compiler, build type, the headers at their borders).
file(GLOB border_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/trainctl/engine/*.h
     ${PROJECT_SOURCE_DIR}/include/trainctl/cuda/*.h ${PROJECT_SOURCE_DIR}/include/trainctl/runtime/*.h)
set(TRAINCTL_BUILD_INFO_DIR ${PROJECT_BINARY_DIR}/generated)
set(TRAINCTL_BUILD_INFO_HEADER ${TRAINCTL_BUILD_INFO_DIR}/trainctl_build_info.h)
set(write_build_info ${CMAKE_COMMAND}
  -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DOUTPUT=${TRAINCTL_BUILD_INFO_HEADER} -DVERSION=${PROJECT_VERSION}
  "-DSETTINGS=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_BUILD_TYPE} ${TRAINCTL_SANITIZE}"
  "-DBORDERS=${border_headers}"
  -P ${CMAKE_CURRENT_LIST_DIR}/WriteBuildInfo.cmake)
execute_process(COMMAND ${write_build_info})
add_custom_target(trainctl_build_info BYPRODUCTS ${TRAINCTL_BUILD_INFO_HEADER}
  COMMAND ${write_build_info} VERBATIM)
