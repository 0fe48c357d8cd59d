#include "doctor/ld_cache.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

namespace trainctl::doctor {
namespace {

// sysdeps/generic/dl-cache.h of glibc: struct cache_file_new and file_entry_new.
constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
constexpr size_t kHeaderSize = 48;
constexpr size_t kEntrySize = 24;
constexpr uint32_t kX86Libc6 = 0x0303;      // FLAG_X8664_LIB64 | FLAG_ELF_LIBC6
constexpr uint32_t kAArch64Libc6 = 0x0a03;  // FLAG_AARCH64_LIB64 | FLAG_ELF_LIBC6

uint32_t number_at(std::string_view cache, size_t offset) {
  uint32_t value = 0;
  if (offset + sizeof value <= cache.size())
    std::memcpy(&value, cache.data() + offset, sizeof value);
  return value;
}

std::string text_at(std::string_view cache, size_t offset) {
  if (offset >= cache.size()) return "";
  const std::string_view rest = cache.substr(offset);
  return std::string(rest.substr(0, rest.find('\0')));
}

bool for_this_processor(const std::string& path) {
  const size_t at = path.find("glibc-hwcaps/");
  if (at == std::string::npos) return true;
  return std::any_of(hardware_folders().begin(), hardware_folders().end(),
                     [&](const std::string& folder) {
                       return !folder.empty() && path.compare(at, folder.size(), folder) == 0;
                     });
}

}  // namespace

std::multimap<std::string, std::string> read_ld_cache(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(in)), {});
  // An old-format cache may stand before it.
  const size_t begin = file.find(kMagic);
  std::multimap<std::string, std::string> out;
  if (begin == std::string::npos) return out;
  const std::string_view cache = std::string_view(file).substr(begin);
  const size_t room = cache.size() / kEntrySize;
  const size_t count = std::min<size_t>(number_at(cache, kMagic.size()), room);
  for (size_t i = 0; i < count; ++i) {
    const size_t entry = kHeaderSize + i * kEntrySize;
    const uint32_t flags = number_at(cache, entry);
    if (flags != kX86Libc6 && flags != kAArch64Libc6) continue;
    const std::string name = text_at(cache, number_at(cache, entry + 4));
    const std::string where = text_at(cache, number_at(cache, entry + 8));
    if (!name.empty() && for_this_processor(where)) out.emplace(name, where);
  }
  return out;
}

const std::vector<std::string>& hardware_folders() {
  static const std::vector<std::string> kFolders = [] {
    std::vector<std::string> folders;
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
    if (__builtin_cpu_supports("x86-64-v4")) folders.emplace_back("glibc-hwcaps/x86-64-v4/");
    if (__builtin_cpu_supports("x86-64-v3")) folders.emplace_back("glibc-hwcaps/x86-64-v3/");
    if (__builtin_cpu_supports("x86-64-v2")) folders.emplace_back("glibc-hwcaps/x86-64-v2/");
#endif
    folders.emplace_back("");
    return folders;
  }();
  return kFolders;
}

}  // namespace trainctl::doctor
