#include "trainctl/base/out_of_memory.h"

#include <array>
#include <charconv>
#include <cstdlib>

namespace trainctl {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array kUnits = {Unit{"bytes", 1}, Unit{"KiB", 1024.0}, Unit{"MiB", 1048576.0},
                               Unit{"GiB", 1073741824.0}, Unit{"TiB", 1099511627776.0}};

// "2.50 GiB…" or "4294967296 bytes…"
std::optional<uint64_t> size_at(std::string_view text) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || value < 0) return std::nullopt;
  std::string_view rest(parsed.ptr, text.data() + text.size());
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  for (const Unit& unit : kUnits) {
    if (rest.starts_with(unit.name)) return static_cast<uint64_t>(value * unit.bytes);
  }
  return std::nullopt;
}

std::optional<uint64_t> size_after(std::string_view text, std::string_view words) {
  const size_t at = text.find(words);
  return at == std::string_view::npos ? std::nullopt : size_at(text.substr(at + words.size()));
}

// The size that stands last before `words`: "… and 500.00 MiB is reserved by …".
std::optional<uint64_t> size_before(std::string_view text, std::string_view words) {
  const size_t end = text.find(words);
  if (end == std::string_view::npos || end == 0) return std::nullopt;
  const size_t unit = text.rfind(' ', end - 1);
  if (unit == std::string_view::npos || unit == 0) return std::nullopt;
  const size_t number = text.rfind(' ', unit - 1);
  return size_at(text.substr(number == std::string_view::npos ? 0 : number + 1));
}

// "Process 4242 has 40.00 GiB memory in use."
std::vector<std::pair<int64_t, uint64_t>> other_processes(std::string_view text) {
  constexpr std::string_view kProcess = "Process ", kHas = " has ";
  std::vector<std::pair<int64_t, uint64_t>> others;
  for (size_t at = text.find(kProcess); at != std::string_view::npos;
       at = text.find(kProcess, at + 1)) {
    const std::string_view rest = text.substr(at + kProcess.size());
    int64_t pid = 0;
    const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), pid);
    const std::string_view after(parsed.ptr, rest.data() + rest.size());
    if (parsed.ec != std::errc() || !after.starts_with(kHas)) continue;
    if (const auto size = size_at(after.substr(kHas.size()))) others.emplace_back(pid, *size);
  }
  return others;
}

}  // namespace

std::optional<OutOfMemoryFigures> parse_out_of_memory(std::string_view text) {
  const auto has = [&](std::string_view words) { return text.find(words) != text.npos; };
  OutOfMemoryFigures figures;
  figures.gpu = has("CUDA out of memory") || has("CUDA error: out of memory") ||
                has("would exceed allowed memory");
  if (!figures.gpu && !has("can't allocate memory") && !has("std::bad_alloc")) return std::nullopt;
  figures.asked = size_after(text, figures.gpu ? "Tried to allocate " : "tried to allocate ");
  figures.total = size_after(text, "has a total capacity of ");
  figures.free = size_after(text, " of which ");
  figures.process = size_after(text, "this process has ");
  figures.tensors = figures.gpu ? size_after(text, "Of the allocated memory ")
                                : size_after(text, "Tensors hold ");
  figures.unallocated = size_before(text, " is reserved by PyTorch but unallocated");
  figures.others = other_processes(text);
  return figures;
}

std::string cpu_out_of_memory_text(uint64_t asked, uint64_t tensors) {
  return "DefaultCPUAllocator: can't allocate memory: you tried to allocate " +
         std::to_string(asked) + " bytes. Tensors hold " + std::to_string(tensors) + " bytes.";
}

}  // namespace trainctl
