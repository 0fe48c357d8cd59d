#pragma once

#include <memory>

#include "trainctl/runtime/device.h"

namespace trainctl {

std::unique_ptr<Device> make_cpu_device();

}  // namespace trainctl
