#include "runtime/allocator.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "trainctl/base/out_of_memory.h"

namespace trainctl {
namespace {

class CpuAllocator : public testing::Test {
 protected:
  void SetUp() override {
    install_cpu_allocator();
    release_cached_cpu_memory();
  }
};

TEST_F(CpuAllocator, ServesTensorsOfEverySizeAligned) {
  for (const int64_t bytes :
       {0, 1, 63, 64, 255, 257, 4097, 1 << 20, (2 << 20) - 63, (2 << 20) + 1, 9 << 20}) {
    const at::Tensor tensor = at::full({bytes}, 7, at::kByte);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 64, 0) << bytes;
    EXPECT_TRUE(tensor.eq(7).all().item<bool>()) << bytes;
  }
}

TEST_F(CpuAllocator, GivesAFreedBlockToTheNextTensorOfThatSize) {
  const void* first = nullptr;
  for (const int64_t bytes : {1000, 5 << 20}) {
    {
      const at::Tensor tensor = at::empty({bytes}, at::kByte);
      first = tensor.const_data_ptr();
    }
    const size_t before = cpu_allocator_stats().from_system;
    const at::Tensor again = at::empty({bytes - bytes / 100}, at::kByte);
    EXPECT_EQ(again.const_data_ptr(), first) << bytes;
    EXPECT_EQ(cpu_allocator_stats().from_system, before) << bytes;
  }
}

TEST_F(CpuAllocator, NeverGivesABlockMuchLargerThanAsked) {
  { const at::Tensor large = at::empty({8 << 20}, at::kByte); }
  const size_t cached = cpu_allocator_stats().cached;
  const at::Tensor half = at::empty({4 << 20}, at::kByte);
  EXPECT_EQ(cpu_allocator_stats().cached, cached);  // the large block is still there
}

TEST_F(CpuAllocator, RefusalNamesWhatWasAskedAndWhatTensorsHold) {
  const at::Tensor held = at::empty({3 << 20}, at::kByte);
  try {
    (void)at::empty({int64_t{1} << 60}, at::kByte);
    FAIL() << "nobody has that much";
  } catch (const c10::Error& error) {
    const auto figures = parse_out_of_memory(error.what_without_backtrace());
    ASSERT_TRUE(figures.has_value()) << error.what();
    EXPECT_GE(*figures->asked, uint64_t{1} << 60);
    EXPECT_GE(*figures->tensors, uint64_t{3} << 20);
  }
}

TEST_F(CpuAllocator, GivesBackWhatItKeepsBeforeItRefuses) {
  // Below a limit that leaves room for one of the two only; both are too small to count as hoarded.
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  { const at::Tensor kept = at::empty({int64_t{30} << 20}, at::kByte); }
  ASSERT_GE(cpu_allocator_stats().cached, size_t{30} << 20);
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  rlimit tight = before;
  tight.rlim_cur = pages * 4096 + (rlim_t{10} << 20);
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &tight), 0);
  const auto taken = [] { return at::empty({int64_t{33} << 20}, at::kByte).numel(); };
  EXPECT_NO_THROW(taken());
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
}

TEST_F(CpuAllocator, CountsWhatLivesAndWhatIsKept) {
  const size_t live = cpu_allocator_stats().live;
  {
    const at::Tensor tensor = at::empty({3 << 20}, at::kByte);
    const size_t more = cpu_allocator_stats().live - live;
    EXPECT_GE(more, size_t{3} << 20);
    EXPECT_LE(more, size_t{27} << 17);  // 12.5 % more
  }
  EXPECT_EQ(cpu_allocator_stats().live, live);
  EXPECT_GE(cpu_allocator_stats().cached, size_t{3} << 20);
  release_cached_cpu_memory();
  EXPECT_EQ(cpu_allocator_stats().cached, 0);
}

TEST_F(CpuAllocator, ForgetsOldSizesInsteadOfHoardingThem) {
  // Ever larger tensors, as a prompt that grows: without release they would add up to 4 GB.
  size_t most = 0;
  for (int64_t megabytes = 1; megabytes < 90; ++megabytes) {
    const at::Tensor tensor = at::empty({megabytes << 20}, at::kByte);
    const CpuAllocatorStats stats = cpu_allocator_stats();
    most = std::max(most, stats.live + stats.cached);
  }
  EXPECT_LT(most, size_t{300} << 20);
}

TEST_F(CpuAllocator, KeepsThreadsApart) {
  std::vector<std::thread> threads;
  std::vector<int> mistakes(4);
  for (size_t t = 0; t < mistakes.size(); ++t) {
    threads.emplace_back([t, &mistakes] {
      for (int64_t i = 0; i < 2000; ++i) {
        const int64_t bytes = (i * 7919) % 60000 + 1;
        const at::Tensor a = at::empty({bytes}, at::kByte), b = at::empty({bytes}, at::kByte);
        std::memset(a.mutable_data_ptr(), static_cast<int>(t), static_cast<size_t>(bytes));
        std::memset(b.mutable_data_ptr(), 99, static_cast<size_t>(bytes));
        const auto* data = static_cast<const uint8_t*>(a.const_data_ptr());
        if (data[0] != t || data[bytes - 1] != t) ++mistakes[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : mistakes) EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace trainctl
