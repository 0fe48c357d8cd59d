// Every state of a driver and of GPUs that the doctor knows, on made-up machines.
#include <gmock/gmock.h>

#include "judging.h"
#include "machine_fixtures.h"

namespace trainctl::doctor {
namespace {

using ::testing::HasSubstr;

struct MachineCase {
  const char* name;
  Machine::Variables variables;
  void (*change)(const Machine&);
  const char* probe;
  const char* said;   // verdict and explanation
  const char* words;  // in what was found, cause or cure
};

void nothing(const Machine&) {}
void without_gpu_files(const Machine& machine) {
  for (const char* name : {"proc/driver", "dev", "sys"}) machine.remove(name);
}

const MachineCase kMachines[] = {
    {"Healthy", {}, nothing, "driver.loaded", "ok", "580.65.06, cuInit works, 2 GPUs"},
    {"HealthyVersion", {}, nothing, "driver.version", "ok", "serves CUDA up to 13.0"},
    {"HealthySmi", {}, nothing, "driver.smi", "ok", "sees 2 GPUs, driver 580.65.06"},
    {"WslHasNoProc", {}, without_gpu_files, "driver.loaded", "ok", "cuInit works"},
    {"FabricManager",
     {{"STUB_CUDA_INIT", "802"}},
     nothing,
     "driver.loaded",
     "unfit fabric-manager",
     "nvidia-fabricmanager"},
    {"FabricManagerNotRunning",
     {{"STUB_CUDA_INIT", "802"}},
     nothing,
     "driver.fabric_manager",
     "unfit fabric-manager",
     "not running"},
    {"FabricManagerRunning",
     {{"STUB_CUDA_INIT", "802"}},
     [](const Machine& machine) {
       machine.write("sys/bus/pci/devices/0000:09:00.0/vendor", "0x10de\n");
       machine.write("sys/bus/pci/devices/0000:09:00.0/class", "0x068000\n");
       machine.write("proc/77/comm", "nv-fabricmanage\n");
     },
     "driver.fabric_manager",
     "unfit fabric-manager",
     "runs, but CUDA still waits"},
    {"LibraryOfAnotherVersion",
     {{"STUB_CUDA_INIT", "803"}},
     nothing,
     "driver.loaded",
     "unfit driver-parts-mismatch",
     "reboot"},
    {"ForwardCompatibility",
     {{"STUB_CUDA_INIT", "804"}},
     nothing,
     "driver.loaded",
     "unfit forward-compatibility",
     "cuda-compat"},
    {"Mps",
     {{"STUB_CUDA_INIT", "805"}},
     nothing,
     "driver.loaded",
     "unfit mps-failed",
     "CUDA_MPS_PIPE_DIRECTORY"},
    {"StubLibrary",
     {{"STUB_CUDA_INIT", "34"}},
     nothing,
     "driver.loaded",
     "unfit stub-libcuda",
     "stubs"},
    {"Busy", {{"STUB_CUDA_INIT", "46"}}, nothing, "driver.loaded", "unfit gpu-busy", "exclusive"},
    {"OutOfMemory",
     {{"STUB_CUDA_INIT", "2"}},
     nothing,
     "driver.loaded",
     "unfit gpu-memory-full",
     ""},
    {"NotInitialised",
     {{"STUB_CUDA_INIT", "3"}},
     nothing,
     "driver.loaded",
     "unfit cuda-does-not-start",
     "dmesg"},
    {"InvalidDevice",
     {{"STUB_CUDA_INIT", "101"}},
     nothing,
     "driver.loaded",
     "unfit invalid-device-ordinal",
     "nvidia-smi -L"},
    {"Unknown",
     {{"STUB_CUDA_INIT", "999"}},
     nothing,
     "driver.loaded",
     "unfit cuda-unknown-error",
     "nvidia_uvm"},
    {"OddCode",
     {{"STUB_CUDA_INIT", "4242"}},
     nothing,
     "driver.loaded",
     "unfit cuda-other-error",
     "4242"},
    {"NoDevice",
     {{"STUB_CUDA_COUNT", "0"}},
     nothing,
     "driver.loaded",
     "unfit cuda-sees-no-gpu",
     "cuInit: error 100"},
    {"SmiSeesItCudaDoesNot",
     {{"STUB_CUDA_INIT", "999"}},
     nothing,
     "driver.smi",
     "unfit smi-but-no-cuda",
     "sees 2 GPUs"},
    {"SmiWithTheReasonKnown",
     {{"STUB_CUDA_INIT", "802"}},
     nothing,
     "driver.smi",
     "note",
     "for the reason above"},
    {"SmiMismatch",
     {{"STUB_NVML_INIT", "18"}},
     nothing,
     "driver.smi",
     "unfit driver-parts-mismatch",
     "Driver/library version mismatch"},
    {"SmiFailsAlone", {{"STUB_NVML_INIT", "999"}}, nothing, "driver.smi", "note nvml-fails", "999"},
    {"SmiFailsToo",
     {{"STUB_NVML_INIT", "999"}, {"STUB_CUDA_INIT", "999"}},
     nothing,
     "driver.smi",
     "warning nvml-fails",
     "dmesg"},
    {"TooOld",
     {{"STUB_CUDA_VERSION", "12040"}},
     nothing,
     "driver.version",
     "unfit driver-too-old",
     "serves CUDA up to 12.4, this LibTorch needs CUDA 13.0"},
    {"NoUvmNode",
     {{"STUB_CUDA_INIT", "999"}},
     [](const Machine& machine) { machine.remove("dev/nvidia-uvm"); },
     "driver.loaded",
     "unfit device-node-missing",
     "/dev/nvidia-uvm is missing"},
    {"NoNodes",
     {{"STUB_CUDA_INIT", "100"}},
     [](const Machine& machine) { machine.remove("dev"); },
     "driver.loaded",
     "unfit gpu-nodes-missing",
     "nvidia-modprobe"},
    {"Container",
     {{"STUB_CUDA_INIT", "100"}},
     [](const Machine& machine) {
       machine.remove("dev");
       machine.write(".dockerenv", "");
     },
     "driver.loaded",
     "unfit container-without-gpu",
     "--gpus all"},
    {"NoModule",
     {{"STUB_CUDA_INIT", "100"}, {"STUB_NVML_INIT", "9"}},
     [](const Machine& machine) {
       machine.remove("dev");
       machine.remove("proc/driver");
     },
     "driver.loaded",
     "unfit driver-not-loaded",
     "install NVIDIA driver"},
    {"NoGpuAtAll",
     {{"STUB_CUDA_INIT", "100"}, {"STUB_NVML_COUNT", "0"}},
     without_gpu_files,
     "driver.loaded",
     "unfit no-gpu",
     "no NVIDIA GPU found"},
    {"Hidden",
     {{"STUB_CUDA_COUNT", "0"}, {"CUDA_VISIBLE_DEVICES", "-1"}},
     nothing,
     "driver.loaded",
     "unfit gpus-hidden",
     "unset it"},
    {"Crash",
     {{"STUB_CUDA_CRASH", "1"}},
     nothing,
     "driver.loaded",
     "unfit driver-slow",
     "ended by SIGSEGV"},

    {"Devices", {}, nothing, "gpus.devices", "ok", "2 × NVIDIA Stub 80, 80.0 GiB"},
    {"CapabilityTooOld",
     {{"STUB_CUDA_CAPABILITY", "70"}},
     nothing,
     "gpus.capability",
     "unfit gpu-too-old",
     "compute capability 7.0"},
    {"MemoryHeld",
     {{"STUB_NVML_FREE_GIB", "40"}, {"STUB_NVML_PROCESS", "4711"}},
     [](const Machine& machine) { machine.write("proc/4711/comm", "python3\n"); },
     "gpus.memory",
     "warning gpu-memory-held",
     "GPU 1's 80.0 GiB only 40.0 GiB are free; held by python3 (PID 4711, 40.0 GiB)"},
    {"MemoryHeldUnseen",
     {{"STUB_NVML_FREE_GIB", "40"}},
     nothing,
     "gpus.memory",
     "warning gpu-memory-held",
     "not seen from here"},
    {"Ecc",
     {{"STUB_NVML_ECC", "3"}},
     nothing,
     "gpus.health",
     "warning gpu-ecc-errors",
     "GPU 1's memory had 3 errors"},
    {"RemapPending",
     {{"STUB_NVML_REMAP_PENDING", "1"}},
     nothing,
     "gpus.health",
     "warning gpu-rows-remapped",
     "wait to be replaced"},
    {"RemapFailed",
     {{"STUB_NVML_REMAP_FAILED", "1"}},
     nothing,
     "gpus.health",
     "warning gpu-rows-remapped",
     "replacement failed"},
    {"Throttled",
     {{"STUB_NVML_THROTTLE", "64"}},
     nothing,
     "gpus.throttling",
     "warning gpu-throttled",
     "too warm (hardware slowdown), 91 °C"},
    {"PowerCapIsNoNews", {{"STUB_NVML_THROTTLE", "4"}}, nothing, "gpus.throttling", "ok", "none"},
    {"PersistenceOff",
     {{"STUB_NVML_PERSISTENCE", "0"}},
     nothing,
     "gpus.persistence",
     "note persistence-off",
     "nvidia-persistenced"},
    {"Prohibited",
     {{"STUB_NVML_COMPUTE_MODE", "2"}},
     nothing,
     "gpus.mode",
     "unfit gpu-prohibited",
     "GPU 1 is in compute mode"},
    {"MigWithoutInstances",
     {{"STUB_NVML_MIG", "1"}},
     nothing,
     "gpus.mode",
     "unfit mig-without-instances",
     "GPU 1 is in MIG mode"},
    {"MigWithInstances",
     {{"STUB_NVML_MIG", "1"}, {"STUB_NVML_MIG_INSTANCES", "2"}},
     nothing,
     "gpus.mode",
     "ok",
     ""},
    {"NoPeers",
     {{"STUB_CUDA_PEERS", "0"}},
     nothing,
     "gpus.links",
     "note no-peer-access",
     "1 of 1 pairs"},
    {"NvLink", {{"STUB_NVML_LINKS", "4"}}, nothing, "gpus.links", "ok", "NVLink on 2 GPUs"},
    {"VisibleBeyond",
     {{"CUDA_VISIBLE_DEVICES", "0,5"}},
     nothing,
     "gpus.visible",
     "warning visible-devices-wrong",
     "there is no GPU 5"},
    {"VisibleNonsense",
     {{"CUDA_VISIBLE_DEVICES", "cuda:0"}},
     nothing,
     "gpus.visible",
     "unfit visible-devices-wrong",
     "names no GPU"},
    {"VisibleTwice",
     {{"CUDA_VISIBLE_DEVICES", "0,0"}},
     nothing,
     "gpus.visible",
     "unfit visible-devices-wrong",
     "twice"},
    {"VisibleWell", {{"CUDA_VISIBLE_DEVICES", "1"}}, nothing, "gpus.visible", "ok", "1 of 2"},
};

class OnAMachine : public ::testing::TestWithParam<MachineCase> {
 protected:
  void SetUp() override { load_fake_driver(); }
};

TEST_P(OnAMachine, SaysWhatIsWrongAndWhatToDo) {
  Machine machine(GetParam().variables);
  machine.add_gpus(2);
  GetParam().change(machine);
  Diagnosis diagnosis = machine.diagnosed();
  // This program's own libraries know no CUDA: the probes are told that LibTorch's does.
  diagnosis.evidence["libraries"]["runtime_cuda"] = 13000;
  Finding finding;
  for (const Group& group : groups()) {
    for (const Probe& probe : group.probes) {
      if (std::string(GetParam().probe) == probe.id) {
        finding = probe.judge(diagnosis.evidence, machine.options());
      }
    }
  }
  EXPECT_EQ(said(finding), GetParam().said) << finding.found << "\n" << finding.cause;
  EXPECT_THAT(finding.found + "\n" + finding.cause + "\n" + finding.cure,
              HasSubstr(GetParam().words));
}

INSTANTIATE_TEST_SUITE_P(All, OnAMachine, ::testing::ValuesIn(kMachines),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Driver, OneThatHangsCostsOneFinding) {
  load_fake_driver();
  Machine machine(Machine::Variables{{"STUB_CUDA_HANG", "1"}});
  machine.add_gpus(2);
  machine.options().deadline = std::chrono::milliseconds(2000);
  const Diagnosis diagnosis = machine.diagnosed();
  const ProbeResult loaded = probe_of(diagnosis, "driver.loaded");
  EXPECT_EQ(said(loaded.finding), "unfit driver-slow");
  EXPECT_THAT(loaded.finding.cure, HasSubstr("--deadline"));
  EXPECT_EQ(said(probe_of(diagnosis, "driver.smi").finding), "ok");
  EXPECT_EQ(said(probe_of(diagnosis, "gpus.health").finding), "ok");
}

TEST(Driver, WhoAsksForTheCpuIsNotFailed) {
  load_fake_driver();
  Machine machine(Machine::Variables{{"STUB_CUDA_INIT", "802"}, {"STUB_NVML_COMPUTE_MODE", "2"}});
  machine.add_gpus(2);
  machine.options().device = "cpu";
  for (const ProbeResult& probe : machine.diagnosed().probes) {
    if (probe.group != "driver" && probe.group != "gpus") continue;
    EXPECT_LE(static_cast<int>(probe.finding.verdict), static_cast<int>(Verdict::kNote))
        << probe.id << " " << probe.finding.found;
  }
}

TEST(Driver, WithoutAGpuOneFindingSaysSo) {
  load_fake_driver();
  Machine machine(Machine::Variables{{"STUB_CUDA_INIT", "100"}, {"STUB_NVML_COUNT", "0"}});
  int wrong = 0;
  for (const ProbeResult& probe : machine.diagnosed().probes) {
    if (probe.group != "driver" && probe.group != "gpus") continue;
    wrong += probe.finding.verdict == Verdict::kOk ? 0 : 1;
  }
  EXPECT_EQ(wrong, 1);
}

}  // namespace
}  // namespace trainctl::doctor
