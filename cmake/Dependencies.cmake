# Small torch-free libraries: the system's packages first.
find_package(Threads REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(spdlog 1.10 REQUIRED)
if(TRAINCTL_TESTS)
  find_package(GTest REQUIRED)
endif()

# Header-only spdlog and fmt: the packaged shared libspdlog would bring its own floor of libstdc++.
add_library(trainctl_spdlog INTERFACE)
add_library(trainctl::spdlog ALIAS trainctl_spdlog)
target_link_libraries(trainctl_spdlog INTERFACE spdlog::spdlog_header_only)
