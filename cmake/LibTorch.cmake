# trainctl::torch: libtorch_cpu and libc10 with plain include and library paths. find_package(Torch)
# is not used: it is fatal without a CUDA toolkit, and the engine must build without one.
#
# Looked for in order: TORCH_ROOT (variable or environment), CMAKE_PREFIX_PATH, .deps/venv.
set(torch_candidates ${TORCH_ROOT} $ENV{TORCH_ROOT})
foreach(prefix ${CMAKE_PREFIX_PATH})
  list(APPEND torch_candidates ${prefix} ${prefix}/../..)
endforeach()
file(GLOB torch_in_deps ${PROJECT_SOURCE_DIR}/.deps/venv/lib/python3*/site-packages/torch)
list(APPEND torch_candidates ${torch_in_deps})
foreach(candidate ${torch_candidates})
  if(EXISTS ${candidate}/include/ATen/ATen.h AND EXISTS ${candidate}/lib/libtorch_cpu.so)
    get_filename_component(TRAINCTL_TORCH_DIR ${candidate} ABSOLUTE)
    break()
  endif()
endforeach()
if(NOT TRAINCTL_TORCH_DIR)
  message(FATAL_ERROR "LibTorch not found. Run scripts/setup.sh, or set TORCH_ROOT to a LibTorch 2.11 "
                      "folder (the one that holds include/ and lib/).")
endif()
file(READ ${TRAINCTL_TORCH_DIR}/include/torch/headeronly/version.h torch_version_header)
set(TRAINCTL_TORCH_VERSION "")
foreach(part MAJOR MINOR PATCH)
  string(REGEX MATCH "TORCH_VERSION_${part} ([0-9]+)" _ "${torch_version_header}")
  string(APPEND TRAINCTL_TORCH_VERSION "${CMAKE_MATCH_1}.")
endforeach()
string(REGEX REPLACE "[.]$" "" TRAINCTL_TORCH_VERSION "${TRAINCTL_TORCH_VERSION}")
if(NOT TRAINCTL_TORCH_VERSION VERSION_GREATER_EQUAL 2.11 OR NOT TRAINCTL_TORCH_VERSION VERSION_LESS 2.12)
  message(FATAL_ERROR "LibTorch ${TRAINCTL_TORCH_VERSION} at ${TRAINCTL_TORCH_DIR}; trainctl needs 2.11. "
                      "Give another with TORCH_ROOT, or run scripts/setup.sh to install it.")
endif()
message(STATUS "LibTorch ${TRAINCTL_TORCH_VERSION}: ${TRAINCTL_TORCH_DIR}")

add_library(trainctl::torch INTERFACE IMPORTED)
target_include_directories(trainctl::torch SYSTEM INTERFACE ${TRAINCTL_TORCH_DIR}/include)
target_link_directories(trainctl::torch INTERFACE ${TRAINCTL_TORCH_DIR}/lib)
# libtorch_cpu finds its own libcudart and libcupti by its RPATH.
target_link_libraries(trainctl::torch INTERFACE torch_cpu c10)
target_link_options(trainctl::torch INTERFACE -Wl,--allow-shlib-undefined)
