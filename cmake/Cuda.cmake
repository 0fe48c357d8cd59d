# The CUDA unit is built where a toolkit and the CUDA LibTorch are there, or where TRAINCTL_CUDA=ON
# asks for it.
set(TRAINCTL_BUILD_CUDA OFF)
