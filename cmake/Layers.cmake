# trainctl_layer(NAME [TORCH] SOURCES … DEPENDS …): one static library per layer, trainctl_<NAME>.
# TORCH layers are compiled against LibTorch with a precompiled ATen header and as a unity build,
# since one translation unit with ATen's headers costs seconds (docs/design.md, section 5).
set(TRAINCTL_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms inside std::string's operator+, GCC bugs 105329 and 105651.
  list(APPEND TRAINCTL_WARNINGS -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds)
endif()
if(TRAINCTL_WERROR)
  list(APPEND TRAINCTL_WARNINGS -Werror)
endif()

# A unity unit with ATen's headers takes about 2 GB: no more of them at a time than memory holds.
cmake_host_system_information(RESULT memory_mb QUERY TOTAL_PHYSICAL_MEMORY)
math(EXPR torch_jobs "${memory_mb} / 2500 + 1")
set_property(GLOBAL APPEND PROPERTY JOB_POOLS torch=${torch_jobs})

function(trainctl_target_settings target)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${TRAINCTL_WARNINGS}>)
  if(TRAINCTL_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TRAINCTL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
    target_link_options(${target} PUBLIC -fsanitize=${TRAINCTL_SANITIZE})
  endif()
endfunction()

# trainctl_precompiled(TARGET NAME LIBRARIES … HEADERS …): the target uses the precompiled header NAME,
# made at its first use.
function(trainctl_precompiled target name)
  cmake_parse_arguments(arg "" "" "LIBRARIES;HEADERS" ${ARGN})
  set(pch trainctl_${name}_pch)
  if(NOT TARGET ${pch})
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${pch}.cpp CONTENT "")
    add_library(${pch} OBJECT ${PROJECT_BINARY_DIR}/${pch}.cpp)
    trainctl_target_settings(${pch})
    target_link_libraries(${pch} PUBLIC ${arg_LIBRARIES})
    target_precompile_headers(${pch} PRIVATE ${arg_HEADERS})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${pch})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    # The precompiled header is made with -fPIC; with an executable's -fPIE GCC would pass over it.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

set(plain_headers <nlohmann/json.hpp> <filesystem> <functional> <map> <memory> <optional> <string> <vector>)

function(trainctl_torch_settings target)
  target_link_libraries(${target} PUBLIC trainctl::torch)
  set_target_properties(${target} PROPERTIES JOB_POOL_COMPILE torch TRAINCTL_TORCH ON)
  trainctl_precompiled(${target} torch LIBRARIES trainctl::torch HEADERS
    <ATen/ATen.h> <torch/csrc/autograd/custom_function.h> <torch/csrc/autograd/autograd.h>
    <string> <vector> <memory> <map> <unordered_map> <functional> <optional>)
endfunction()

function(trainctl_layer name)
  cmake_parse_arguments(arg "TORCH" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(trainctl_${name} STATIC ${arg_SOURCES})
  trainctl_target_settings(trainctl_${name})
  list(TRANSFORM arg_DEPENDS PREPEND trainctl_)
  target_link_libraries(trainctl_${name} PUBLIC ${arg_DEPENDS} nlohmann_json::nlohmann_json)
  if(arg_TORCH)
    trainctl_torch_settings(trainctl_${name})
    set_target_properties(trainctl_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  else()
    trainctl_precompiled(trainctl_${name} plain LIBRARIES nlohmann_json::nlohmann_json HEADERS ${plain_headers})
  endif()
endfunction()

# trainctl_unit(TARGET [LIBRARY_FOLDERS …]): settings of a shared link unit, libtrainctl_*.so. It is
# built beside the executable and installed into lib/trainctl; the executable looks in both places.
function(trainctl_unit target)
  cmake_parse_arguments(arg "" "" "LIBRARY_FOLDERS" ${ARGN})
  # Nothing of the static layers is exported: each unit keeps its own copy of them.
  target_link_options(${target} PRIVATE -Wl,--no-undefined -Wl,--exclude-libs,ALL)
  set_target_properties(${target} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin
    INSTALL_RPATH "$ORIGIN;${TRAINCTL_TORCH_DIR}/lib;${arg_LIBRARY_FOLDERS}")
  install(TARGETS ${target} LIBRARY DESTINATION lib/trainctl)
endfunction()
