#include "trainctl/base/library_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "support/testing.h"
#include "trainctl/base/out_of_memory.h"

namespace trainctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr uint64_t kGiB = uint64_t{1} << 30;

ErrorEvidence roomy() {
  ErrorEvidence evidence;
  evidence.shm_size = evidence.shm_free = 8 * kGiB;
  return evidence;
}

std::string id_of(std::string_view text, const ErrorEvidence& evidence = roomy()) {
  const auto known = recognize_library_error(text, evidence);
  return known ? known->row->id : "";
}

// Texts as the libraries that LibTorch 2.11 comes with write them.
struct Said {
  const char* text;
  const char* id;
};
const Said kSaid[] = {
    {"CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.10 GiB of "
     "which 4.20 MiB is free.",
     "gpu-out-of-memory"},
    {"CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
     "gpu-out-of-memory"},
    {"[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: "
     "you "
     "tried to allocate 400000000000 bytes. Error code 12 (Cannot allocate memory)",
     "cpu-out-of-memory"},
    {"std::bad_alloc", "cpu-out-of-memory"},
    {"[12.3] Memory cgroup out of memory: Killed process 4242 (trainctl)", "oom-killer"},
    {"slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.", "oom-killer"},
    {"cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", "cudnn-not-initialized"},
    {"cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "cudnn-failed"},
    {"cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a "
     "non-contiguous input.",
     "cudnn-not-supported"},
    {"cuDNN Frontend error: [cudnn_frontend] Error: No valid execution plans built.",
     "cudnn-not-supported"},
    {"cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", "cudnn-parts-mismatch"},
    {"Unable to load any of {libcudnn_graph.so.9.19.0, libcudnn_graph.so.9}\nInvalid handle. "
     "Cannot "
     "load symbol cudnnCreate",
     "cudnn-part-missing"},
    {"CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
     "cudnn-out-of-memory"},
    {"CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
     "cublas-not-initialized"},
    {"CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle)`",
     "cublas-failed"},
    {"Deterministic behavior was enabled with either `torch.use_deterministic_algorithms(True)` or "
     "`at::Context::setDeterministicAlgorithms(true)`, but this operation is not deterministic "
     "because it uses CuBLAS and you have CUDA >= 10.2. To enable deterministic behavior in this "
     "case, you must set an environment variable before running your PyTorch application: "
     "CUBLAS_WORKSPACE_CONFIG=:4096:8 or CUBLAS_WORKSPACE_CONFIG=:16:8.",
     "cublas-determinism"},
    {"scatter_add_cuda_kernel does not have a deterministic implementation, but you set "
     "'torch.use_deterministic_algorithms(True)'.",
     "no-deterministic-kernel"},
    {"No available kernel. Aborting execution.", "attention-no-kernel"},
    {"CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert'", "gpu-assert"},
    {"CUDA error: an illegal memory access was encountered", "gpu-illegal-access"},
    {"CUDA error: unspecified launch failure", "gpu-launch-failure"},
    {"CUDA error: uncorrectable ECC error encountered", "gpu-ecc-errors"},
    {"NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.", "gpu-lost"},
    {"NVRM: Xid (PCI:0000:3b:00): 48, pid='<unknown>', DBE", "gpu-ecc"},
    {"NVRM: Xid (PCI:0000:3b:00): 119, pid=1, Timeout waiting for RPC", "gpu-xid"},
    {"NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:3690, unhandled "
     "system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.28.9\nncclSystemError: "
     "System call (e.g. socket, malloc) or external library call failed or device error. \nLast "
     "error:\nError: failed to extend /dev/shm/nccl-Ab12Cd to 33030532 bytes, error: No space left "
     "on device (28)",
     "nccl-shared-memory"},
    {"NCCL error in: x.cpp:1, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL "
     "version 2.28.9\nncclSystemError: System call\nLast error:\nCall to ibv_reg_mr failed with "
     "error Cannot allocate memory",
     "nccl-infiniband"},
    {"NCCL error in: x.cpp:1, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL "
     "version 2.28.9\nncclSystemError: System call",
     "nccl-system-error"},
    {"NCCL error in: x.cpp:1, unhandled system error, NCCL version 2.28.9\nLast error:\nCall to "
     "accept failed: Too many open files",
     "nccl-open-files"},
    {"NCCL error in: x.cpp:1, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version "
     "2.28.9\nLast error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000",
     "nccl-one-gpu-twice"},
    {"NCCL error in: x.cpp:1, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL "
     "version 2.28.9\nncclUnhandledCudaError: Call to CUDA function failed.",
     "nccl-cuda-error"},
    {"NCCL error in: x.cpp:1, remote process exited or there was a network error, NCCL version "
     "2.28.9\nncclRemoteError: A call failed possibly due to a network error",
     "nccl-peer-lost"},
    {"[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)", "nccl-timeout"},
    {"[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:538] Connection closed by peer "
     "[127.0.0.1]:45346",
     "gloo-peer-lost"},
    {"[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 2000ms "
     "for recv operation to complete",
     "gloo-timeout"},
    {"The server socket has failed to listen on any local network address. port: 29500, useIpv6: "
     "false, code: -98, name: EADDRINUSE, message: address already in use",
     "store-port-in-use"},
    {"The client socket has timed out after 60000ms while trying to connect to (node7, 29500).",
     "store-not-reached"},
};

TEST(LibraryError, KnowsWhatTheLibrariesSay) {
  for (const Said& said : kSaid) EXPECT_EQ(id_of(said.text), said.id) << said.text;
}

TEST(LibraryError, LeavesOtherDefectsAlone) {
  for (const char* text :
       {"mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
        "Expected all tensors to be on the same device", "basic_string::at", ""}) {
    EXPECT_EQ(id_of(text), "") << text;
  }
}

TEST(LibraryError, CudnnNotInitializedIsDecidedByFreeMemoryAndLoadedParts) {
  const char* text = "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED";
  ErrorEvidence full = roomy();
  full.gpu_free = 3 << 20;
  const auto memory = recognize_library_error(text, full);
  EXPECT_STREQ(memory->row->id, "cudnn-out-of-memory");
  EXPECT_THAT(memory->why.cause, HasSubstr("really out of memory (3.0 MiB free)"));
  EXPECT_EQ(memory->row->exit_code, ExitCode::kTrainingFailed);

  ErrorEvidence mixed = roomy();
  mixed.gpu_free = 70 * kGiB;
  mixed.cudnn_folders = {"/opt/cudnn8/lib", "/venv/cudnn/lib"};
  const auto mismatch = recognize_library_error(text, mixed);
  EXPECT_STREQ(mismatch->row->id, "cudnn-mixed");
  EXPECT_THAT(mismatch->why.cause, HasSubstr("/opt/cudnn8/lib and /venv/cudnn/lib"));
  EXPECT_EQ(mismatch->row->exit_code, ExitCode::kEnvironment);

  mixed.cudnn_folders.pop_back();
  EXPECT_EQ(id_of(text, mixed), "cudnn-not-initialized");
}

TEST(LibraryError, NcclSystemErrorIsDecidedByTheMachine) {
  const char* text =
      "NCCL error in: x.cpp:1, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL "
      "version 2.28.9";
  ErrorEvidence small = roomy();
  small.shm_size = small.shm_free = 1 << 20;
  const auto shm = recognize_library_error(text, small);
  EXPECT_STREQ(shm->row->id, "nccl-shared-memory");
  EXPECT_THAT(shm->message(), HasSubstr("1.0 MiB, 1.0 MiB free"));
  EXPECT_THAT(shm->message(), HasSubstr("--shm-size"));
  ErrorEvidence locked = roomy();
  locked.infiniband = true;
  locked.locked_memory = 64 << 10;
  EXPECT_EQ(id_of(text, locked), "nccl-infiniband");
  locked.infiniband = false;
  EXPECT_EQ(id_of(text, locked), "nccl-system-error");
}

TEST(LibraryError, ALimitOnAddressSpaceIsNamed) {
  ErrorEvidence evidence = roomy();
  evidence.address_space_limit = 4 * kGiB;
  evidence.address_space_used = 3 * kGiB;
  const auto known = recognize_library_error("std::bad_alloc", evidence);
  EXPECT_STREQ(known->row->id, "address-space-limit");
  EXPECT_THAT(known->why.cause, HasSubstr("4.0 GiB"));
}

TEST(LibraryError, MessageBeginsWithTheLibrarysWordsWithoutSourcePositions) {
  const auto nccl = recognize_library_error(
      "NCCL error in: /pytorch/x.cpp:93, unhandled system error, NCCL version 2.28.9\n"
      "ncclSystemError: System call\nLast error:\nNo space left on /dev/shm\nException raised from",
      roomy());
  EXPECT_THAT(nccl->message(), StartsWith("NCCL: unhandled system error, NCCL version 2.28.9 (No "
                                          "space left on /dev/shm)\n  why:  "));
  const auto gloo = recognize_library_error(
      "[/pytorch/gloo/pair.cc:538] Connection closed by peer [127.0.0.1]:45346", roomy());
  EXPECT_THAT(gloo->message(), StartsWith("Connection closed by peer [127.0.0.1]:45346\n"));
  EXPECT_THAT(gloo->message(), HasSubstr("trainctl doctor --explain gloo-peer-lost"));
}

TEST(LibraryError, EvidenceComesFromFilesOfTheRoot) {
  FakeRoot root;
  root.write("proc/self/maps",
             "7f00-7f01 r-xp 00000000 00:00 1   /a/lib/libcudnn.so.9\n"
             "7f02-7f03 r-xp 00000000 00:00 1   /a/lib/libcudnn_graph.so.9\n"
             "7f04-7f05 r-xp 00000000 00:00 1   /b/lib/libcudnn_ops.so.9\n"
             "7f06-7f07 rw-p 00000000 00:00 0   [heap]\n");
  root.write("proc/self/status", "Name:\tx\nVmSize:\t    2048 kB\n");
  root.write("sys/class/infiniband/mlx5_0/node_type", "1\n");
  root.write("dev/shm/x", "");
  const ErrorEvidence evidence = gather_error_evidence(root.path());
  EXPECT_THAT(evidence.cudnn_folders, ::testing::ElementsAre("/a/lib", "/b/lib"));
  EXPECT_EQ(evidence.address_space_used, 2048U * 1024);
  EXPECT_TRUE(evidence.infiniband);
  EXPECT_TRUE(evidence.shm_size.has_value());
}

TEST(Explanations, EveryPatternLeadsToItsOwnRowAndIdsAreUnique) {
  std::set<std::string> ids;
  for (const ExplanationGroup& group : explanation_groups()) {
    for (const ExplanationRow& row : group.rows) {
      EXPECT_TRUE(ids.insert(row.id).second) << row.id;
      for (const char* pattern : row.patterns) {
        const auto known = recognize_error(pattern);
        ASSERT_TRUE(known.has_value()) << pattern;
        EXPECT_STREQ(known->row->id, row.id) << pattern;
      }
    }
  }
}

TEST(Explanations, WithoutFactsTextsStillRead) {
  for (const ExplanationGroup& group : explanation_groups()) {
    for (const ExplanationRow& row : group.rows) {
      const Explanation why = fill_row(row, {}).why;
      for (const std::string& text : {why.cause, why.cure}) {
        EXPECT_FALSE(text.empty()) << row.id;
        EXPECT_THAT(text, Not(HasSubstr("{"))) << row.id;
        EXPECT_THAT(text, Not(HasSubstr("  "))) << row.id;
        EXPECT_FALSE(text.ends_with(".")) << row.id;  // clauses
      }
    }
  }
}

TEST(OutOfMemoryFigures, ReadsEveryFigureOfCuda) {
  const auto figures = parse_out_of_memory(
      "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 1 has a total capacity of 79.10 GiB of "
      "which 512.00 KiB is free. Process 12 has 1.00 GiB memory in use. Process 345 has 2.00 GiB "
      "memory in use. Including non-PyTorch memory, this process has 76.00 GiB memory in use. Of "
      "the allocated memory 70.00 GiB is allocated by PyTorch, with 100.00 MiB allocated in "
      "private "
      "pools (e.g., CUDA Graphs), and 5.00 GiB is reserved by PyTorch but unallocated. If "
      "reserved");
  ASSERT_TRUE(figures.has_value());
  EXPECT_TRUE(figures->gpu);
  EXPECT_EQ(figures->asked, 5 * kGiB / 2);
  EXPECT_EQ(figures->free, 512U << 10);
  EXPECT_EQ(figures->process, 76 * kGiB);
  EXPECT_EQ(figures->tensors, 70 * kGiB);
  EXPECT_EQ(figures->unallocated, 5 * kGiB);
  ASSERT_EQ(figures->others.size(), 2U);
  EXPECT_EQ(figures->others[1], (std::pair<int64_t, uint64_t>(345, 2 * kGiB)));
}

TEST(OutOfMemoryFigures, ReadsOurOwnAllocatorAndRefusesOtherTexts) {
  const auto figures = parse_out_of_memory(cpu_out_of_memory_text(1000, 77));
  ASSERT_TRUE(figures.has_value());
  EXPECT_FALSE(figures->gpu);
  EXPECT_EQ(figures->asked, 1000U);
  EXPECT_EQ(figures->tensors, 77U);
  EXPECT_FALSE(parse_out_of_memory("CUDNN_STATUS_NOT_INITIALIZED").has_value());
  EXPECT_FALSE(parse_out_of_memory("std::bad_alloc")->asked.has_value());
}

}  // namespace
}  // namespace trainctl
