# trainctl::torch: libtorch_cpu and libc10 as imported targets of our own. find_package(Torch) is not
# used: it is fatal without a CUDA toolkit, and the engine must build without one.
#
# Looked for in order: TORCH_ROOT (variable or environment), CMAKE_PREFIX_PATH (likewise), the one
# that scripts/setup.sh chose (.deps/torch_root), .deps/venv.
set(torch_candidates ${TORCH_ROOT} $ENV{TORCH_ROOT})
string(REPLACE ":" ";" prefixes "${CMAKE_PREFIX_PATH};$ENV{CMAKE_PREFIX_PATH}")
foreach(prefix ${prefixes})
  # A prefix is the folder itself, or share/cmake in it as torch.utils.cmake_prefix_path says.
  list(APPEND torch_candidates ${prefix} ${prefix}/../..)
endforeach()
if(EXISTS ${TRAINCTL_DEPS_DIR}/torch_root)
  file(STRINGS ${TRAINCTL_DEPS_DIR}/torch_root torch_chosen LIMIT_COUNT 1)
  list(APPEND torch_candidates ${torch_chosen})
endif()
file(GLOB torch_in_deps ${TRAINCTL_DEPS_DIR}/venv/lib/python3*/site-packages/torch)
list(APPEND torch_candidates ${torch_in_deps})
set(TRAINCTL_TORCH_DIR "")
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
set(torch_version "")
foreach(part MAJOR MINOR PATCH)
  string(REGEX MATCH "TORCH_VERSION_${part} ([0-9]+)" _ "${torch_version_header}")
  list(APPEND torch_version ${CMAKE_MATCH_1})
endforeach()
list(JOIN torch_version "." TRAINCTL_TORCH_VERSION)
if(NOT TRAINCTL_TORCH_VERSION VERSION_GREATER_EQUAL 2.11 OR NOT TRAINCTL_TORCH_VERSION VERSION_LESS 2.12)
  message(FATAL_ERROR "LibTorch ${TRAINCTL_TORCH_VERSION} at ${TRAINCTL_TORCH_DIR}; trainctl needs 2.11. "
                      "Give another with TORCH_ROOT, or run scripts/setup.sh to install it.")
endif()
message(STATUS "LibTorch ${TRAINCTL_TORCH_VERSION}: ${TRAINCTL_TORCH_DIR}")
# Its CUDA: a wheel says it in version.py, an unpacked archive in build-version ("2.11.0+cu130").
set(TRAINCTL_TORCH_CUDA "")
if(EXISTS ${TRAINCTL_TORCH_DIR}/version.py)
  file(STRINGS ${TRAINCTL_TORCH_DIR}/version.py torch_cuda_line REGEX "^cuda" LIMIT_COUNT 1)
  if(torch_cuda_line MATCHES "'([0-9.]+)'")
    set(TRAINCTL_TORCH_CUDA ${CMAKE_MATCH_1})
  elseif(torch_cuda_line MATCHES "None")
    set(TRAINCTL_TORCH_CUDA "none")
  endif()
elseif(EXISTS ${TRAINCTL_TORCH_DIR}/build-version)
  file(STRINGS ${TRAINCTL_TORCH_DIR}/build-version torch_build LIMIT_COUNT 1)
  if(torch_build MATCHES "\\+cu([0-9]+)([0-9])$")
    set(TRAINCTL_TORCH_CUDA "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}")
  elseif(torch_build MATCHES "\\+cpu")
    set(TRAINCTL_TORCH_CUDA "none")
  endif()
endif()

# trainctl_torch_library(NAME): trainctl::NAME, the shared library libNAME.so of this LibTorch.
function(trainctl_torch_library name)
  add_library(trainctl::${name} SHARED IMPORTED GLOBAL)
  set_target_properties(trainctl::${name} PROPERTIES
    IMPORTED_LOCATION ${TRAINCTL_TORCH_DIR}/lib/lib${name}.so IMPORTED_SONAME lib${name}.so)
endfunction()

trainctl_torch_library(torch_cpu)
trainctl_torch_library(c10)
add_library(trainctl::torch INTERFACE IMPORTED GLOBAL)
target_include_directories(trainctl::torch SYSTEM INTERFACE ${TRAINCTL_TORCH_DIR}/include)
target_link_libraries(trainctl::torch INTERFACE trainctl::torch_cpu trainctl::c10)
# libtorch_cpu finds its own libcudart and libcupti by its RPATH; the linker need not.
target_link_options(trainctl::torch INTERFACE -Wl,--allow-shlib-undefined)

# at::parallel_for is a template over OpenMP: compiled without it, it runs on one thread. The runtime
# must be the very one that libtorch_cpu loads, which LibTorch brings; two would each keep their own
# threads spinning.
file(GLOB torch_gomp ${TRAINCTL_TORCH_DIR}/lib/libgomp*.so*)
if(NOT torch_gomp)
  set(torch_gomp gomp)  # a LibTorch that takes the system's
endif()
list(GET torch_gomp 0 torch_gomp)
target_compile_options(trainctl::torch INTERFACE -fopenmp)
target_link_libraries(trainctl::torch INTERFACE ${torch_gomp})
