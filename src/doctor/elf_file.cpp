#include "doctor/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

namespace trainctl::doctor {
namespace {

// More than any real library has; what asks for more is damaged.
constexpr size_t kMostEntries = 4096;
constexpr size_t kLongestString = 1 << 16;

struct Damaged {
  std::string what;
};

class Reader {
 public:
  explicit Reader(const fs::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat info = {};
    if (fd_ < 0 || ::fstat(fd_, &info) != 0) throw Damaged{std::strerror(errno)};
    if (!S_ISREG(info.st_mode)) throw Damaged{"is no regular file"};
    size_ = static_cast<uint64_t>(info.st_size);
  }
  ~Reader() {
    if (fd_ >= 0) ::close(fd_);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  uint64_t size() const { return size_; }

  template <class T>
  T at(uint64_t offset) const {
    T value;
    read(offset, &value, sizeof value);
    return value;
  }

  template <class T>
  std::vector<T> list(uint64_t offset, size_t count) const {
    if (count > kMostEntries) throw Damaged{"has absurd tables"};
    std::vector<T> values(count);
    if (count > 0) read(offset, values.data(), count * sizeof(T));
    return values;
  }

  std::string text(uint64_t offset) const {
    std::string out;
    char piece[256];
    while (out.size() < kLongestString) {
      const ssize_t got =
          ::pread(fd_, piece, sizeof piece, static_cast<off_t>(offset + out.size()));
      if (got <= 0) break;
      const size_t length = ::strnlen(piece, static_cast<size_t>(got));
      out.append(piece, length);
      if (length < static_cast<size_t>(got)) return out;
    }
    throw Damaged{"is cut short"};
  }

 private:
  void read(uint64_t offset, void* into, size_t bytes) const {
    if (offset > size_ || size_ - offset < bytes) throw Damaged{"is cut short"};
    if (::pread(fd_, into, bytes, static_cast<off_t>(offset)) != static_cast<ssize_t>(bytes)) {
      throw Damaged{"cannot be read"};
    }
  }

  int fd_ = -1;
  uint64_t size_ = 0;
};

struct Image {
  const Reader& file;
  std::vector<Elf64_Phdr> segments;
  std::map<int64_t, uint64_t> tags;  // those that appear once
  std::vector<uint64_t> needed;      // offsets into the string table

  // Where in the file an address lies.
  uint64_t offset_of(uint64_t address) const {
    for (const Elf64_Phdr& segment : segments) {
      if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
          address - segment.p_vaddr < segment.p_filesz) {
        return segment.p_offset + (address - segment.p_vaddr);
      }
    }
    throw Damaged{"has addresses outside of itself"};
  }
  std::string text(uint64_t offset) const {
    const auto strings = tags.find(DT_STRTAB);
    if (strings == tags.end()) throw Damaged{"has no names"};
    return file.text(offset_of(strings->second) + offset);
  }
  std::string text_of(int64_t tag) const {
    const auto found = tags.find(tag);
    return found == tags.end() ? "" : text(found->second);
  }
};

void read_header(Image* image, bool* foreign) {
  struct Magic {
    char letters[SELFMAG];
  };
  const auto magic = image->file.at<Magic>(0);
  if (std::memcmp(magic.letters, ELFMAG, SELFMAG) != 0) {
    throw Damaged{"is no library (no ELF header)"};
  }
  const auto header = image->file.at<Elf64_Ehdr>(0);
#if defined(__aarch64__)
  constexpr Elf64_Half kMachine = EM_AARCH64;
#else
  constexpr Elf64_Half kMachine = EM_X86_64;
#endif
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != kMachine) {
    *foreign = true;
    throw Damaged{"is for another kind of processor"};
  }
  if (header.e_phentsize != sizeof(Elf64_Phdr)) throw Damaged{"has absurd tables"};
  image->segments = image->file.list<Elf64_Phdr>(header.e_phoff, header.e_phnum);
}

void read_dynamic_section(Image* image) {
  for (const Elf64_Phdr& segment : image->segments) {
    if (segment.p_type == PT_LOAD && (segment.p_offset > image->file.size() ||
                                      image->file.size() - segment.p_offset < segment.p_filesz)) {
      throw Damaged{"is cut short"};
    }
  }
  for (const Elf64_Phdr& segment : image->segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    for (const auto& entry :
         image->file.list<Elf64_Dyn>(segment.p_offset, segment.p_filesz / sizeof(Elf64_Dyn))) {
      if (entry.d_tag == DT_NULL) return;
      if (entry.d_tag == DT_NEEDED) {
        image->needed.push_back(entry.d_un.d_val);
      } else {
        image->tags.emplace(entry.d_tag, entry.d_un.d_val);
      }
    }
    return;
  }
  throw Damaged{"is no shared library"};
}

void read_needed_versions(const Image& image, ElfFile* out) {
  const auto table = image.tags.find(DT_VERNEED);
  const auto count = image.tags.find(DT_VERNEEDNUM);
  if (table == image.tags.end() || count == image.tags.end()) return;
  uint64_t at = image.offset_of(table->second);
  for (uint64_t i = 0; i < std::min<uint64_t>(count->second, kMostEntries); ++i) {
    const auto object = image.file.at<Elf64_Verneed>(at);
    const std::string name = image.text(object.vn_file);
    uint64_t entry = at + object.vn_aux;
    for (int j = 0; j < object.vn_cnt; ++j) {
      const auto version = image.file.at<Elf64_Vernaux>(entry);
      if ((version.vna_flags & VER_FLG_WEAK) == 0) {
        out->needed_versions.push_back({name, image.text(version.vna_name)});
      }
      entry += version.vna_next;
    }
    if (object.vn_next == 0) return;
    at += object.vn_next;
  }
}

void read_defined_versions(const Image& image, ElfFile* out) {
  const auto table = image.tags.find(DT_VERDEF);
  const auto count = image.tags.find(DT_VERDEFNUM);
  if (table == image.tags.end() || count == image.tags.end()) return;
  uint64_t at = image.offset_of(table->second);
  for (uint64_t i = 0; i < std::min<uint64_t>(count->second, kMostEntries); ++i) {
    const auto version = image.file.at<Elf64_Verdef>(at);
    const auto name = image.file.at<Elf64_Verdaux>(at + version.vd_aux);
    out->defined_versions.push_back(image.text(name.vda_name));
    if (version.vd_next == 0) return;
    at += version.vd_next;
  }
}

}  // namespace

ElfFile read_elf(const fs::path& path) {
  ElfFile out;
  try {
    const Reader file(path);
    Image image{file, {}, {}, {}};
    read_header(&image, &out.foreign);
    read_dynamic_section(&image);
    out.soname = image.text_of(DT_SONAME);
    for (const uint64_t offset : image.needed) out.needed.push_back(image.text(offset));
    out.runpath = image.text_of(DT_RUNPATH);
    if (out.runpath.empty()) out.rpath = image.text_of(DT_RPATH);
    read_needed_versions(image, &out);
    read_defined_versions(image, &out);
  } catch (const Damaged& damage) {
    const bool foreign = out.foreign;
    out = {};
    out.foreign = foreign;
    out.problem = damage.what;
  }
  return out;
}

}  // namespace trainctl::doctor
