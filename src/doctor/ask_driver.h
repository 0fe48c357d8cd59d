// The driver's two libraries asked in processes of their own, so that one that blocks or crashes
// still leaves what else is known.
#pragma once

#include "doctor/cuda_driver.h"
#include "doctor/nvml.h"

namespace trainctl::doctor {

struct DriverAnswers {
  CudaAnswer cuda;
  NvmlAnswer nvml;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(DriverAnswers, cuda, nvml)

DriverAnswers ask_driver(bool about_devices, const DoctorOptions& options);

}  // namespace trainctl::doctor
