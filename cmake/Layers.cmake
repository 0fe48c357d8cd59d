# trainctl_layer(NAME [TORCH] SOURCES … DEPENDS …): one static library per layer, trainctl_<NAME>.
# TORCH layers are compiled against LibTorch with a precompiled ATen header and as a unity build,
# since one translation unit with ATen's headers costs seconds (docs/design.md, section 5).
set(TRAINCTL_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual)
if(TRAINCTL_WERROR)
  list(APPEND TRAINCTL_WARNINGS -Werror)
endif()

function(trainctl_target_settings target)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${TRAINCTL_WARNINGS}>)
  if(TRAINCTL_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TRAINCTL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
    target_link_options(${target} PUBLIC -fsanitize=${TRAINCTL_SANITIZE})
  endif()
endfunction()

function(trainctl_torch_settings target)
  target_link_libraries(${target} PUBLIC trainctl::torch)
  if(NOT TARGET trainctl_torch_pch)
    # One precompiled header serves every torch layer.
    file(WRITE ${PROJECT_BINARY_DIR}/torch_pch.cpp "")
    add_library(trainctl_torch_pch OBJECT ${PROJECT_BINARY_DIR}/torch_pch.cpp)
    trainctl_target_settings(trainctl_torch_pch)
    target_link_libraries(trainctl_torch_pch PUBLIC trainctl::torch)
    target_precompile_headers(trainctl_torch_pch PRIVATE
      <ATen/ATen.h> <torch/csrc/autograd/custom_function.h> <torch/csrc/autograd/autograd.h>
      <string> <vector> <memory> <map> <unordered_map> <functional> <optional>)
  endif()
  target_precompile_headers(${target} REUSE_FROM trainctl_torch_pch)
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
  endif()
endfunction()
