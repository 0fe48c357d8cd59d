#include "train/preflight_steps.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "runtime/attention.h"
#include "trainctl/base/files.h"
#include "trainctl/base/process.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSeconds = 0.5;  // of measuring, long enough for what comes and goes

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Seconds per call, after one call to warm up. The mean, not the best: what slows a rank now and
// then slows every step of training.
template <class Work>
double seconds_per_call(Device& device, const Work& work) {
  work();
  device.synchronize();
  const Clock::time_point begin = Clock::now();
  int64_t calls = 0;
  double seconds = 0;
  for (; seconds < kSeconds; seconds = seconds_since(begin)) {
    work();
    device.synchronize();
    ++calls;
  }
  return seconds / static_cast<double>(calls);
}

// Writes until enough is written or enough time has gone; returns the bytes, or -1 with errno.
int64_t write_some(int descriptor) {
  constexpr int64_t kMost = int64_t{256} << 20;
  const std::vector<char> block(size_t{4} << 20, 'x');
  const Clock::time_point begin = Clock::now();
  int64_t written = 0;
  while (written < kMost && (written == 0 || seconds_since(begin) < kSeconds)) {
    const ssize_t count = ::write(descriptor, block.data(), block.size());
    if (count < 0 && errno != EINTR) return -1;
    if (count > 0) written += count;
  }
  return ::fsync(descriptor) == 0 ? written : -1;
}

fs::path nearest_folder(const std::string& folder) {
  std::error_code error;
  fs::path path = fs::absolute(folder, error);
  while (!fs::is_directory(path, error) && path != path.parent_path()) path = path.parent_path();
  return path;
}

}  // namespace

PreflightFigure measure_matmul(at::ScalarType type, const char* step, Device& device) {
  const int64_t size = device.torch_device().is_cuda() ? 8192 : 1024;
  const auto options = at::TensorOptions(device.torch_device());
  const at::Tensor a = at::randn({size, size}, options).to(type);
  const at::Tensor b = at::randn({size, size}, options).to(type);
  const double seconds = seconds_per_call(device, [&] { (void)at::mm(a, b); });
  const auto n = static_cast<double>(size);
  return {step,
          "GFLOP/s",
          true,
          2 * n * n * n / seconds / 1e9,
          std::to_string(size) + " × " + std::to_string(size),
          false};
}

std::vector<PreflightFigure> measure_attention(Device& device) {
  const bool cuda = device.torch_device().is_cuda();
  const std::vector<int64_t> shape =
      cuda ? std::vector<int64_t>{4, 16, 2048, 64} : std::vector<int64_t>{1, 8, 512, 64};
  const auto options = at::TensorOptions(device.torch_device());
  const at::ScalarType type = cuda ? at::kBFloat16 : at::kFloat;
  std::vector<at::Tensor> qkv;
  for (int i = 0; i < 3; ++i)
    qkv.push_back(at::randn(shape, options).to(type).requires_grad_(true));
  const auto run = [&] {
    return 1000 * seconds_per_call(device, [&] {
             at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0.0, /*is_causal=*/true)
                 .sum()
                 .backward();
             for (at::Tensor& x : qkv) x.mutable_grad().reset();
           });
  };
  std::vector<PreflightFigure> figures;
  for (const AttentionTrial& trial : try_attention_backends(device.torch_device(), run)) {
    PreflightFigure figure{std::string("attention ") + trial.name, "ms", false, {}, "", false};
    if (trial.reason.empty()) {
      figure.value = trial.result;
      figure.note = std::to_string(shape[0]) + " × " + std::to_string(shape[1]) + " heads × " +
                    std::to_string(shape[2]) + " × " + std::to_string(shape[3]) +
                    ", forward and backward";
    } else {
      figure.note = trial.reason;
    }
    figures.push_back(figure);
  }
  return figures;
}

PreflightFigure measure_write(const std::string& folder) {
  const fs::path path = nearest_folder(folder);
  const std::string name = (path / (".trainctl-preflight-" + ProcessIdentity::self().host + "-" +
                                    std::to_string(::getpid())))
                               .string();
  PreflightFigure figure{"write and fsync", "MB/s", true, {}, path.string(), false};
  const Clock::time_point begin = Clock::now();
  const int descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const int64_t written = descriptor < 0 ? -1 : write_some(descriptor);
  if (written < 0) {
    figure.failed = true;
    figure.note = "'" + path.string() + "': " + std::strerror(errno);
  } else {
    figure.value = static_cast<double>(written) / seconds_since(begin) / 1e6;
    figure.note = human_bytes(static_cast<uint64_t>(written)) + " to " + path.string();
  }
  if (descriptor >= 0) {
    ::close(descriptor);
    ::unlink(name.c_str());
  }
  return figure;
}

}  // namespace trainctl
