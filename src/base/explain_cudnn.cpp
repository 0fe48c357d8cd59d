#include "base/explain_chapters.h"

namespace trainctl {

std::span<const ExplanationRow> cudnn_explanations() {
  static const ExplanationRow kRows[] = {
      {"cudnn-mixed",
       "cuDNN's parts come from different installations",
       {},
       "cuDNN is a set of libraries of one version, and parts of another one were loaded "
       "({folders})",
       "take the folder of the other cuDNN out of LD_LIBRARY_PATH (module systems and conda set "
       "it; "
       "module list, echo $LD_LIBRARY_PATH), or give both the version that LibTorch was built with",
       "grep libcudnn /proc/PID/maps names every part that is loaded; trainctl doctor compares "
       "them"},
      {"cudnn-out-of-memory",
       "CUDNN_STATUS_NOT_INITIALIZED or CUBLAS_STATUS_NOT_INITIALIZED on a full GPU",
       {"cudnn_status_alloc_failed", "cudnn_status_internal_error_device_allocation_failed",
        "cudnn_status_internal_error_host_allocation_failed", "cublas_status_alloc_failed"},
       "the GPU is really out of memory ({free} free): cuDNN and cuBLAS take their handles and "
       "workspaces beside LibTorch's own memory, and say it with a status of theirs",
       "lower training.micro_batch_size (training.global_batch_size stays) or data.seq_len, or end "
       "other processes on the GPU (nvidia-smi)",
       "nvidia-smi at the time of the error; the error goes away with a smaller micro-batch",
       ExitCode::kTrainingFailed},
      {"cudnn-not-initialized",
       "CUDNN_STATUS_NOT_INITIALIZED",
       {"cudnn_status_not_initialized"},
       "cuDNN did not start: another cuDNN than LibTorch's was loaded, the driver is too old for "
       "it, or the GPU's memory was already full when it took its workspace",
       "run trainctl doctor, which compares cuDNN's parts and the driver; take older cuDNN folders "
       "out of LD_LIBRARY_PATH; try once with training.micro_batch_size 1 to tell a full GPU from "
       "a "
       "mismatch",
       "grep libcudnn /proc/PID/maps shows which one is loaded; nvidia-smi shows free memory"},
      {"cudnn-failed",
       "CUDNN_STATUS_EXECUTION_FAILED or CUDNN_STATUS_INTERNAL_ERROR",
       {"cudnn_status_execution_failed", "cudnn_status_internal_error",
        "cudnn_status_mapping_error"},
       "a kernel of cuDNN failed on the GPU: mostly an error of an earlier kernel that surfaces "
       "here, a nearly full GPU, or a cuDNN that does not fit the driver",
       "run again with CUDA_LAUNCH_BLOCKING=1 to see the kernel that fails; compare with "
       "backend.attention \"math\" (no cuDNN); lower training.micro_batch_size; look at "
       "dmesg | grep -i xid",
       "the error stays at the same place with CUDA_LAUNCH_BLOCKING=1 where cuDNN itself is at "
       "fault"},
      {"cudnn-not-supported",
       "CUDNN_STATUS_NOT_SUPPORTED, or cuDNN finds no execution plan",
       {"cudnn_status_not_supported", "cudnn_status_arch_mismatch",
        "no execution plans support the graph", "no valid execution plans", "cudnn frontend error"},
       "this cuDNN has no kernel for the shape, the number format or the GPU that were asked for",
       "set backend.attention to \"flash\", \"efficient\" or \"math\"; the run's header names the "
       "one in use",
       "trainctl doctor --preflight tries every attention kernel on this GPU"},
      {"attention-no-kernel",
       "No available kernel for attention",
       {"no available kernel*aborting execution", "no viable backend for scaled_dot_product"},
       "the attention kernel that is set does not serve this shape, number format or GPU",
       "set backend.attention to \"auto\"",
       "trainctl doctor --preflight tries every attention kernel on this device",
       ExitCode::kUsage},
      {"cublas-not-initialized",
       "CUBLAS_STATUS_NOT_INITIALIZED",
       {"cublas_status_not_initialized"},
       "cuBLAS did not start: mostly the GPU had no memory left for its workspace; else an error "
       "of "
       "an earlier kernel, or a cuBLAS of another version first in LD_LIBRARY_PATH",
       "lower training.micro_batch_size once to tell; run again with CUDA_LAUNCH_BLOCKING=1; take "
       "other CUDA folders out of LD_LIBRARY_PATH",
       "nvidia-smi at the time of the error; grep libcublas /proc/PID/maps"},
      {"cublas-determinism",
       "Deterministic behavior needs CUBLAS_WORKSPACE_CONFIG",
       {"deterministic*cublas_workspace_config"},
       "backend.deterministic is on and cuBLAS got a workspace with which products are not "
       "repeatable",
       "unset CUBLAS_WORKSPACE_CONFIG (trainctl sets it itself before CUDA starts) or set it to "
       ":4096:8",
       "echo $CUBLAS_WORKSPACE_CONFIG"},
      {"no-deterministic-kernel",
       "An operation does not have a deterministic implementation",
       {"does not have a deterministic implementation"},
       "backend.deterministic is on, and LibTorch has no repeatable kernel for an operation of "
       "this "
       "model on this device",
       "set backend.deterministic to false, or choose another backend.attention",
       "the message names the operation",
       ExitCode::kUsage},
      {"cublas-failed",
       "CUBLAS_STATUS_EXECUTION_FAILED or another cuBLAS status",
       {"cublas_status_execution_failed", "cublas_status_internal_error",
        "cublas_status_not_supported", "cublas_status_arch_mismatch",
        "cublas_status_mapping_error"},
       "a matrix product failed on the GPU: mostly an error of an earlier kernel that surfaces "
       "here, a nearly full GPU, or a cuBLAS that does not fit driver or GPU",
       "run again with CUDA_LAUNCH_BLOCKING=1 to see the kernel that fails; take other CUDA "
       "folders "
       "out of LD_LIBRARY_PATH; look at dmesg | grep -i xid",
       "trainctl doctor --preflight runs a matrix product in every number format"},
      {"gpu-ecc",
       "Xid 48, 94 or 95: uncorrectable ECC error of a GPU",
       {"xid*: 48,", "xid*: 94,", "xid*: 95,", "row remapping failure"},
       "the GPU's memory has a fault that could not be corrected; what was computed since may be "
       "wrong",
       "reset the GPU (sudo nvidia-smi --gpu-reset -i N, or reboot), continue from the last "
       "checkpoint on another one, and have a GPU that repeats it replaced",
       "nvidia-smi -q -d ECC,ROW_REMAPPER; dmesg | grep -i xid (48, 94, 95)"},
      {"gpu-lost",
       "A GPU has fallen off the bus",
       {"fallen off the bus", "gpu is lost", "xid*: 79,"},
       "the system has lost the connection to the GPU: power, heat, the riser or the board",
       "power-cycle the host (a reboot is often not enough); if it comes back, have the GPU and "
       "its "
       "power supply checked",
       "dmesg | grep -i xid (79); the GPU is missing from nvidia-smi"},
      {"nvlink-error",
       "An NVLink error of a GPU",
       {"uncorrectable nvlink error", "cudaerrornvlinkuncorrectable", "xid*: 74,"},
       "a link between GPUs has a fault that could not be corrected",
       "reset the GPUs or reboot; check cables or bridges and nvidia-smi nvlink --status",
       "nvidia-smi nvlink -e; dmesg | grep -i xid (74)"},
      {"gpu-assert",
       "CUDA error: device-side assert triggered",
       {"device-side assert triggered", "cudaerrorassert"},
       "a kernel met an index out of range: a token id or label at or above model.vocab_size (or "
       "model.n_classes) that got past the checks of the data",
       "run the same step with backend.device \"cpu\", where the message names the index; this "
       "should not happen with trainctl's own data formats: report it",
       "CUDA_LAUNCH_BLOCKING=1 shows the operation",
       ExitCode::kTrainingFailed},
      {"gpu-illegal-access",
       "CUDA error: an illegal memory access was encountered",
       {"illegal memory access", "cudaerrorillegaladdress", "misaligned address",
        "illegal instruction was encountered", "invalid address space", "invalid program counter"},
       "a kernel read or wrote where it must not: a defect of a kernel, or a GPU or memory fault; "
       "CUDA cannot be used any more in that process",
       "run again with CUDA_LAUNCH_BLOCKING=1 (it names the operation), then with "
       "backend.attention \"math\"; if it moves between operations or GPUs, suspect the hardware: "
       "dmesg | grep -i xid",
       "compute-sanitizer names the kernel; dmesg | grep -i xid (13, 31: program; others: "
       "hardware)",
       ExitCode::kTrainingFailed},
      {"gpu-launch-timeout",
       "CUDA error: the launch timed out and was terminated",
       {"launch timed out and was terminated", "cudaerrorlaunchtimeout"},
       "the GPU also drives a display, whose watchdog ends kernels that take seconds",
       "use a GPU without a display, or stop the desktop (sudo systemctl isolate "
       "multi-user.target)",
       "nvidia-smi shows Disp.A On"},
      {"gpu-xid",
       "NVRM: Xid in the kernel's log",
       {"nvrm: xid", "xid ("},
       "the driver reports an error of a GPU or of a program on it; the number says which",
       "look the number up in NVIDIA's table of Xid errors; 13, 31, 43 and 45 are mostly programs, "
       "48, 63, 64, 74, 79, 94, 95 and 119 hardware or firmware",
       "dmesg | grep -i xid"},
  };
  return kRows;
}

}  // namespace trainctl
