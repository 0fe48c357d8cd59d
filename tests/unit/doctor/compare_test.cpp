#include "trainctl/doctor/compare.h"

#include <gmock/gmock.h>

#include "support/testing.h"

namespace trainctl {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

Json machine() {
  return Json::parse(R"({
    "trainctl": "0.1.0", "build": "b1", "host": "host7", "time": "2026-01-01T00:00:00Z",
    "evidence": {
      "driver": {"kernel_driver": "580.65.06", "cuda": {"driver_cuda": 13000, "count": 2}},
      "libraries": {"libtorch": "2.11.0+cu130", "runtime_cuda": 13000, "engine": "/a/e.so",
        "objects": {"libcudnn.so.9": {"path": "/n/libcudnn.so.9", "version": "9.19.0", "rule": "RPATH"},
                    "libstdc++.so.6": {"path": "/lib/libstdc++.so.6", "version": "6.0.30"}}},
      "gpus": {"cuda": {"count": 2, "devices": [
                 {"name": "NVIDIA H200", "capability": 90, "uuid": "GPU-1"},
                 {"name": "NVIDIA H200", "capability": 90, "uuid": "GPU-2"}]},
               "nvml": {"devices": [{"memory_free": 1000, "temperature": 40}]}},
      "context": {"processor": {"model": "AMD EPYC", "instructions": ["avx2", "avx512f"]},
                  "usable_processors": 8,
                  "system": {"kernel": "6.1"},
                  "variables": {"OMP_NUM_THREADS": "8", "SLURM_JOB_ID": "1"}},
      "network": {"clock": {"now": 1, "synchronized": true}},
      "limits": {"shared_memory": {"free": 12, "size": 100}}
    }})");
}

struct CompareCase {
  const char* name;
  const char* path;  // JSON pointer into the evidence
  Json value;
  const char* difference;  // "" : none; else where
  bool numbers;
};

const CompareCase kCases[] = {
    {"Driver", "/driver/kernel_driver", "590.1", "driver.kernel_driver", true},
    {"LibTorch", "/libraries/libtorch", "2.11.0+cu128", "libraries.libtorch", true},
    {"Cudnn", "/libraries/objects/libcudnn.so.9/version", "9.10.2",
     "libraries.objects.libcudnn.so.9.version", true},
    {"CudnnElsewhere", "/libraries/objects/libcudnn.so.9/path", "/x/libcudnn.so.9",
     "libraries.objects.libcudnn.so.9.path", false},
    {"FoundByAnotherRule", "/libraries/objects/libcudnn.so.9/rule", "RUNPATH", "", false},
    {"Libstdcxx", "/libraries/objects/libstdc++.so.6/version", "6.0.33",
     "libraries.objects.libstdc++.so.6.version", false},
    {"GpuModel", "/gpus/cuda/devices/1/name", "NVIDIA A100", "gpus.models", true},
    {"AnotherGpuOfTheKind", "/gpus/cuda/devices/1/uuid", "GPU-9", "", false},
    {"GpuCount", "/gpus/cuda/count", 8, "gpus.cuda.count", false},
    {"FreeMemoryOfGpu", "/gpus/nvml/devices/0/memory_free", 5, "", false},
    {"Temperature", "/gpus/nvml/devices/0/temperature", 90, "", false},
    {"Processor", "/context/processor/model", "Intel", "context.processor.model", true},
    {"InstructionSets", "/context/processor/instructions", Json::array({"avx2"}),
     "context.processor.instructions", true},
    {"Threads", "/context/usable_processors", 4, "context.usable_processors", true},
    {"ThreadsVariable", "/context/variables/OMP_NUM_THREADS", "4",
     "context.variables.OMP_NUM_THREADS", true},
    {"NewVariable", "/context/variables/NCCL_ALGO", "Ring", "context.variables.NCCL_ALGO", true},
    {"HarmlessVariable", "/context/variables/NCCL_DEBUG", "INFO", "context.variables.NCCL_DEBUG",
     false},
    {"AnotherJob", "/context/variables/SLURM_JOB_ID", "2", "", false},
    {"Kernel", "/context/system/kernel", "6.8", "context.system.kernel", false},
    {"TheTime", "/network/clock/now", 2, "", false},
    {"FreeMemory", "/limits/shared_memory/free", 3, "", false},
    {"SharedMemory", "/limits/shared_memory/size", 64, "limits.shared_memory.size", false},
};

class Compare : public ::testing::TestWithParam<CompareCase> {};

TEST_P(Compare, MarksWhatCanChangeNumbers) {
  Snapshot here{"here", machine()}, there{"there", machine()};
  there.content["evidence"][Json::json_pointer(GetParam().path)] = GetParam().value;
  const Comparison comparison = compare_snapshots(here, there);
  if (std::string(GetParam().difference).empty()) {
    EXPECT_TRUE(comparison.differences.empty()) << format_comparison(comparison);
    EXPECT_THAT(format_comparison(comparison), HasSubstr("No difference that matters"));
    return;
  }
  ASSERT_EQ(comparison.differences.size(), 1U) << format_comparison(comparison);
  EXPECT_EQ(comparison.differences[0].what, GetParam().difference);
  EXPECT_EQ(comparison.differences[0].numbers, GetParam().numbers);
  EXPECT_EQ(comparison.same_numbers(), !GetParam().numbers);
  EXPECT_THAT(format_comparison(comparison),
              HasSubstr(GetParam().numbers ? "1 difference, 1 of which" : "none of which"));
}

INSTANTIATE_TEST_SUITE_P(All, Compare, ::testing::ValuesIn(kCases),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(CompareSnapshots, AnotherBuildCanChangeNumbers) {
  Snapshot here{"here", machine()}, there{"there", machine()};
  there.content["build"] = "b2";
  EXPECT_FALSE(compare_snapshots(here, there).same_numbers());
}

TEST(CompareSnapshots, AGroupThatFailedIsNamedAndNotCompared) {
  Snapshot here{"here", machine()}, there{"there", machine()};
  there.content["evidence"]["driver"] = {{"failed", "no answer within 1.8 s"}};
  const Comparison comparison = compare_snapshots(here, there);
  EXPECT_TRUE(comparison.differences.empty());
  EXPECT_THAT(comparison.unknown, ::testing::ElementsAre("driver"));
}

TEST(CompareSnapshots, AGroupThatOnlyOneLookedAtIsNoDifference) {
  Snapshot here{"here", machine()}, there{"there", machine()};
  here.content["evidence"]["storage"] = {{"kind", "ext4"}};
  EXPECT_TRUE(compare_snapshots(here, there).differences.empty());
}

TEST(ReadSnapshot, TakesARunAFileAndNothingElse) {
  const TemporaryFolder folder;
  folder.write("run/doctor.json", machine().dump());
  folder.write("empty/x", "");
  folder.write("wrong.json", "{\"evidence\": [");
  folder.write("other.json", "{\"a\": 1}");
  EXPECT_THAT(read_snapshot(folder.path() / "run").name, HasSubstr("doctor.json (host7, 2026"));
  EXPECT_EQ(read_snapshot(folder.path() / "run/doctor.json").content, machine());
  for (const char* name : {"empty", "wrong.json", "other.json", "none"}) {
    EXPECT_THAT(refusal_of(ExitCode::kUsage, [&] { read_snapshot(folder.path() / name); }),
                HasSubstr(name));
  }
}

}  // namespace
}  // namespace trainctl
