// safetensors_tool dump FILE [NAME]     JSON: dtype, shape and bytes in hex of every tensor, or of
// one safetensors_tool rewrite FROM TO      reads every tensor and writes them to another file
// safetensors_tool check FILE           reads the header only
// safetensors_tool time FILE…           seconds until all are mapped, and until every byte was read
//
// For the interchange tests with the Python library (tests/reference/safetensors_test.py) and for
// scripts/bench/checkpoint.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "trainctl/checkpoint/safetensors.h"

namespace {

std::string hex_of(const at::Tensor& tensor) {
  static constexpr char kDigits[] = "0123456789abcdef";
  const auto* bytes = static_cast<const unsigned char*>(tensor.const_data_ptr());
  std::string out;
  for (size_t i = 0; i < tensor.nbytes(); ++i) {
    out += kDigits[bytes[i] >> 4];
    out += kDigits[bytes[i] & 15];
  }
  return out;
}

void dump(const trainctl::SafetensorsFile& file, const std::vector<std::string>& names) {
  nlohmann::json out;
  out["metadata"] = file.metadata();
  for (const std::string& name : names) {
    const at::Tensor tensor = file.tensor(name);
    out["tensors"][name] = {{"dtype", at::toString(tensor.scalar_type())},
                            {"shape", tensor.sizes().vec()},
                            {"bytes", hex_of(tensor)}};
  }
  std::puts(out.dump().c_str());
}

// Both from the start, so that the first is a part of the second.
void time_reading(int count, char** paths) {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<trainctl::SafetensorsFile> files;
  for (int i = 0; i < count; ++i) files.emplace_back(paths[i]);
  const double ready = seconds();
  uint64_t sum = 0, bytes = 0;
  for (const auto& file : files) {
    for (const std::string& name : file.names()) {
      const at::Tensor tensor = file.tensor(name);
      const auto* words = static_cast<const uint64_t*>(tensor.const_data_ptr());
      for (size_t i = 0; i < tensor.nbytes() / sizeof(uint64_t); ++i) sum += words[i];
      bytes += tensor.nbytes();
    }
  }
  std::puts(nlohmann::json({{"ready", ready}, {"read", seconds()}, {"bytes", bytes}, {"sum", sum}})
                .dump()
                .c_str());
}

int run(int argc, char** argv) {
  const std::string command = argc > 2 ? argv[1] : "";
  if (command == "check") {
    const trainctl::SafetensorsFile file(argv[2]);
    std::printf("%zu tensors\n", file.names().size());
    return 0;
  }
  if (command == "dump") {
    const trainctl::SafetensorsFile file(argv[2]);
    dump(file, argc > 3 ? std::vector<std::string>{argv[3]} : file.names());
    return 0;
  }
  if (command == "time") {
    time_reading(argc - 2, argv + 2);
    return 0;
  }
  if (command == "rewrite" && argc == 4) {
    const trainctl::SafetensorsFile file(argv[2]);
    std::vector<trainctl::TensorEntry> entries;
    for (const std::string& name : file.names()) {
      entries.push_back({name, file.tensor(name)});
    }
    trainctl::write_safetensors(argv[3], entries, file.metadata());
    return 0;
  }
  std::fputs("safetensors_tool dump|check FILE, rewrite FROM TO, time FILE…\n", stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const trainctl::UserError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
