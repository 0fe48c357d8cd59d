# Writes OUTPUT only when it changes. Called at every build with SOURCE_DIR, OUTPUT, VERSION, SETTINGS
# and BORDERS (cmake/BuildInfo.cmake).
cmake_minimum_required(VERSION 3.25)
set(commit "nogit")
find_program(git git)
if(git AND EXISTS ${SOURCE_DIR}/.git)
  execute_process(COMMAND ${git} -C ${SOURCE_DIR} -c safe.directory=${SOURCE_DIR} describe --always --dirty --abbrev=12
    OUTPUT_VARIABLE described RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed)
    set(commit ${described})
  endif()
endif()
set(agreed "${SETTINGS}")
foreach(header ${BORDERS})
  file(SHA256 ${header} hash)
  string(APPEND agreed " ${hash}")
endforeach()
string(SHA256 agreed "${agreed}")
string(SUBSTRING ${agreed} 0 12 agreed)
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT
"// Written by cmake/WriteBuildInfo.cmake.
#pragma once
#define TRAINCTL_VERSION \"@VERSION@\"
#define TRAINCTL_BUILD_ID \"@VERSION@+@commit@.@agreed@\"
")
