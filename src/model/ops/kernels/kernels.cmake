# The kernels, each file compiled for one instruction set. They stay out of the unity build and do
# without the precompiled header, both of which have the flags of the whole program.
set(kernels_dir ${CMAKE_CURRENT_SOURCE_DIR}/model/ops/kernels)
set(kernel_flags -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math)
set(avx512_flags -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512)
set(kernel_sources ${kernels_dir}/choose.cpp ${kernels_dir}/kernels_generic.cpp)
set_source_files_properties(${kernels_dir}/kernels_generic.cpp PROPERTIES COMPILE_OPTIONS "${kernel_flags}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  list(APPEND kernel_sources ${kernels_dir}/kernels_avx2.cpp ${kernels_dir}/kernels_avx512.cpp
       ${kernels_dir}/kernels_avx512bf16.cpp)
  set_source_files_properties(${kernels_dir}/kernels_avx2.cpp PROPERTIES
    COMPILE_OPTIONS "${kernel_flags};-mavx2;-mfma")
  set_source_files_properties(${kernels_dir}/kernels_avx512.cpp PROPERTIES
    COMPILE_OPTIONS "${kernel_flags};${avx512_flags}")
  set_source_files_properties(${kernels_dir}/kernels_avx512bf16.cpp PROPERTIES
    COMPILE_OPTIONS "${kernel_flags};${avx512_flags};-mavx512bf16")
endif()
set_source_files_properties(${kernel_sources} PROPERTIES
  SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
target_sources(trainctl_model PRIVATE ${kernel_sources})
