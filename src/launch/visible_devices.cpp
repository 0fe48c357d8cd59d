#include "launch/visible_devices.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>

namespace trainctl {
namespace {

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1));
}

std::string uuid_of(const fs::path& information) {
  std::ifstream in(information);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("GPU UUID:")) return trimmed(line.substr(9));
  }
  return "";
}

size_t device_nodes(const fs::path& root) {
  size_t count = 0;
  std::error_code error;
  for (fs::directory_iterator entry(root / "dev", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.starts_with("nvidia") && all_digits(std::string_view(name).substr(6))) ++count;
  }
  return count;
}

std::vector<std::string> entries_of(std::string_view list) {
  std::vector<std::string> entries;
  while (true) {
    const size_t comma = list.find(',');
    entries.push_back(trimmed(list.substr(0, comma)));
    if (comma == std::string_view::npos) return entries;
    list.remove_prefix(comma + 1);
  }
}

// One entry of CUDA_VISIBLE_DEVICES; on failure `problem` says why.
std::optional<VisibleDevice> find_device(const std::string& entry,
                                         const std::vector<PresentGpu>& present,
                                         std::string* problem) {
  // MIG devices are not in /proc; the driver decides whether there is one of this name.
  if (entry.starts_with("MIG-") && entry.size() > 4) return VisibleDevice{entry, ""};
  if (entry.starts_with("GPU-")) {  // may be abbreviated as long as it is the only one
    const bool known = std::any_of(present.begin(), present.end(),
                                   [](const PresentGpu& gpu) { return !gpu.uuid.empty(); });
    std::vector<VisibleDevice> matches;
    for (const PresentGpu& gpu : present)
      if (gpu.uuid.starts_with(entry)) matches.push_back({entry, gpu.pci});
    if (matches.size() == 1 || (!known && !present.empty()))
      return matches.empty() ? VisibleDevice{entry, ""} : matches[0];
    *problem = matches.empty() ? "this machine has no " + entry
                               : entry + " is the start of several GPUs' names";
    return std::nullopt;
  }
  size_t index = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
  if (!all_digits(entry) || error != std::errc()) {
    *problem = "'" + entry + "' names no GPU";
    return std::nullopt;
  }
  if (index >= present.size()) {
    *problem =
        "there is no GPU " + entry + " among this machine's " + std::to_string(present.size());
    return std::nullopt;
  }
  return VisibleDevice{std::to_string(index), present[index].pci};
}

}  // namespace

std::vector<PresentGpu> present_gpus(const fs::path& root) {
  std::vector<PresentGpu> gpus;
  std::error_code error;
  for (fs::directory_iterator entry(root / "proc/driver/nvidia/gpus", error), end;
       !error && entry != end; entry.increment(error)) {
    gpus.push_back({entry->path().filename(), uuid_of(entry->path() / "information")});
  }
  std::sort(gpus.begin(), gpus.end(),
            [](const PresentGpu& a, const PresentGpu& b) { return a.pci < b.pci; });
  if (gpus.empty()) gpus.resize(device_nodes(root));
  return gpus;
}

VisibleDevices visible_devices(const std::optional<std::string>& variable,
                               const std::vector<PresentGpu>& present) {
  VisibleDevices visible;
  visible.present = present.size();
  visible.variable = variable;
  if (!variable) {
    for (size_t i = 0; i < present.size(); ++i)
      visible.devices.push_back({std::to_string(i), present[i].pci});
    return visible;
  }
  if (trimmed(*variable).empty()) return visible;
  // CUDA takes the entries up to the first that names nothing; the same device twice hides all.
  for (const std::string& entry : entries_of(*variable)) {
    const auto device = find_device(entry, present, &visible.ignored);
    if (!device) break;
    for (const VisibleDevice& other : visible.devices) {
      if (other.name != device->name && (other.pci.empty() || other.pci != device->pci)) continue;
      visible.ignored = entry + " stands in it twice";
      visible.devices.clear();
      return visible;
    }
    visible.devices.push_back(*device);
  }
  return visible;
}

std::string VisibleDevices::text() const {
  const auto gpus = [](size_t count) {
    return std::to_string(count) + (count == 1 ? " GPU" : " GPUs");
  };
  if (!variable) return "this machine has " + gpus(devices.size());
  return "CUDA_VISIBLE_DEVICES=\"" + *variable + "\" shows " + gpus(devices.size()) +
         (ignored.empty() ? "" : " (" + ignored + ")");
}

}  // namespace trainctl
