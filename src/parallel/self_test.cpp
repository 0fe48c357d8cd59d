#include "trainctl/parallel/self_test.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

constexpr double kSeconds = 2;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Every rank adds its number, so that the sum is known.
void require_right_sum(Communicator& communicator, const at::Tensor& bucket) {
  const WorldShape shape = communicator.shape();
  bucket.fill_(static_cast<double>(shape.rank + 1));
  communicator.sum(bucket, "self-test");
  const double expected =
      static_cast<double>(shape.world_size) * static_cast<double>(shape.world_size + 1) / 2;
  if (bucket.eq(expected).all().item<bool>()) return;
  throw environment_error(
      "the all-reduce self-test got wrong sums: the network or a library of "
      "this machine corrupts data; do not train on it");
}

}  // namespace

std::optional<AllReduceRate> measure_all_reduce(Communicator& communicator, double bucket_mb,
                                                Device& device, double seconds) {
  const WorldShape shape = communicator.shape();
  if (shape.world_size == 1) return std::nullopt;
  const auto count = std::max<int64_t>(static_cast<int64_t>(bucket_mb * (1 << 20)) / 4, 1);
  const at::Tensor bucket =
      at::zeros({count}, at::TensorOptions(device.torch_device()).dtype(at::kFloat));
  require_right_sum(communicator, bucket);
  bucket.zero_();
  device.synchronize();
  // Rank 0's clock decides after each round when it is enough.
  const auto begin = std::chrono::steady_clock::now();
  AllReduceRate rate;
  rate.bytes = count * 4;
  for (bool more = true; more;) {
    constexpr int kRound = 4;
    for (int i = 0; i < kRound; ++i) communicator.sum(bucket, "self-test");
    device.synchronize();
    rate.rounds += kRound;
    rate.seconds = seconds_since(begin);
    more = communicator.from_main(rate.seconds < seconds ? "on" : "end", "self-test") == "on";
  }
  const auto ranks = static_cast<double>(shape.world_size);
  const double bytes = static_cast<double>(rate.bytes) * static_cast<double>(rate.rounds);
  rate.bus_bytes_per_second = 2 * (ranks - 1) / ranks * bytes / rate.seconds;
  return rate;
}

std::string all_reduce_self_test(Communicator& communicator, double bucket_mb, Device& device) {
  const auto rate = measure_all_reduce(communicator, bucket_mb, device, kSeconds);
  if (!rate) return "one process: nothing to measure";
  char text[96];
  std::snprintf(text, sizeof text, "%.2f GB/s bus bandwidth (%lld × %s in %.1f s)",
                rate->bus_bytes_per_second / 1e9, static_cast<long long>(rate->rounds),
                human_bytes(static_cast<uint64_t>(rate->bytes)).c_str(), rate->seconds);
  return text;
}

}  // namespace trainctl
