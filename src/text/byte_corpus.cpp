#include "trainctl/text/byte_corpus.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <span>
#include <string_view>

#include "trainctl/base/error.h"
#include "trainctl/base/files.h"
#include "trainctl/base/strings.h"
#include "trainctl/text/byte_tokenizer.h"
#include "trainctl/text/utf8.h"

namespace trainctl {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

[[noreturn]] void fail_read(const std::string& key, const fs::path& path, int error) {
  std::string cure;
  if (error == EACCES || error == EPERM) cure = "; give this user read permission";
  if (error == ESTALE) cure = "; it was replaced on the file server while being read, start again";
  throw data_error(key + ": cannot read '" + path.string() + "': " + std::strerror(error) + cure);
}

class ReadDescriptor {
 public:
  explicit ReadDescriptor(const fs::path& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~ReadDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  ReadDescriptor(const ReadDescriptor&) = delete;
  ReadDescriptor& operator=(const ReadDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// Appends the file's raw bytes, however long it has become since its size was asked for.
void append_raw(std::vector<uint8_t>& bytes, const fs::path& path, const std::string& key) {
  const ReadDescriptor fd(path);
  struct stat status = {};
  if (fd.get() < 0 || ::fstat(fd.get(), &status) != 0) fail_read(key, path, errno);
  size_t end = bytes.size();
  size_t room =
      static_cast<size_t>(status.st_size) + 1;  // one more, to meet the end without growing
  while (true) {
    bytes.resize(end + room);
    const ssize_t got = ::read(fd.get(), bytes.data() + end, room);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_read(key, path, errno);
    if (got == 0) break;
    end += static_cast<size_t>(got);
    room -= static_cast<size_t>(got);
    if (room == 0) room = size_t{1} << 20;  // it grew
  }
  bytes.resize(end);
}

// What a file that is no UTF-8 most likely is, and the command that helps.
std::string conversion_hint(std::string_view text, const std::string& path) {
  const auto begins = [&](std::string_view magic) { return text.substr(0, magic.size()) == magic; };
  if (begins("\xFF\xFE") || begins("\xFE\xFF"))
    return "it looks like UTF-16; convert it: iconv -f UTF-16 -t UTF-8 '" + path + "'";
  if (begins("\x1F\x8B")) return "it is compressed; unpack it with gunzip";
  if (begins("\x28\xB5\x2F\xFD")) return "it is compressed; unpack it with unzstd";
  if (text.find('\0') != std::string_view::npos) return "it holds binary data; leave it out";
  return "convert it, for example from Latin-1: iconv -f ISO-8859-1 -t UTF-8 '" + path + "'";
}

// Line as an editor counts: LF, CRLF and lone CR each end one.
int64_t line_of(std::string_view text, size_t offset) {
  int64_t line = 1;
  for (size_t i = 0; i < offset; ++i) {
    if (text[i] == '\n' || (text[i] == '\r' && text[i + 1] != '\n')) ++line;
  }
  return line;
}

void check_utf8(std::string_view text, const fs::path& path, const std::string& key) {
  const auto offset = find_invalid_utf8(text);
  if (!offset) return;
  char byte[8];
  std::snprintf(byte, sizeof byte, "0x%02X",
                static_cast<unsigned>(static_cast<uint8_t>(text[*offset])));
  throw data_error(path.string() + ":" + std::to_string(line_of(text, *offset)) + ": byte offset " +
                   std::to_string(*offset) + " (" + byte + ") is not valid UTF-8 (" + key + "); " +
                   conversion_hint(text, path.string()));
}

// Turns CRLF and lone CR into LF in place and returns the new length.
size_t normalize_line_ends(std::span<uint8_t> text, TextReadCounts& counts) {
  const auto first = std::find(text.begin(), text.end(), uint8_t{'\r'});
  auto out = static_cast<size_t>(first - text.begin());
  for (size_t i = out; i < text.size(); ++i) {
    if (text[i] != '\r') {
      text[out++] = text[i];
      continue;
    }
    const bool crlf = i + 1 < text.size() && text[i + 1] == '\n';
    ++(crlf ? counts.crlf : counts.lone_cr);
    if (!crlf) text[out++] = '\n';  // of CRLF, the LF follows by itself
  }
  return out;
}

uint64_t total_size(const std::vector<TextFile>& files) {
  uint64_t total = 0;
  for (const TextFile& file : files) {
    std::error_code error;
    const uintmax_t size = fs::file_size(file.path, error);
    if (!error) total += size + 1;  // its end of text
  }
  return total;
}

}  // namespace

void ByteCorpus::append_file(const TextFile& file, const std::string& key) {
  const size_t begin = bytes_.size();
  append_raw(bytes_, file.path, key);
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + begin,
                              bytes_.size() - begin);
  check_utf8(text, file.path, key);
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    const auto at = bytes_.begin() + static_cast<ptrdiff_t>(begin);
    bytes_.erase(at, at + kByteOrderMark.size());
    ++counts_.byte_order_marks;
  }
  bytes_.resize(begin + normalize_line_ends(std::span(bytes_).subspan(begin), counts_));
  if (bytes_.size() == begin) {
    if (!file.from_glob)
      throw data_error(key + ": file '" + file.path.string() +
                       "' is empty; remove it from the list");
    ++counts_.empty_files;
    return;
  }
  ++counts_.files;
  ends_.push_back(static_cast<int64_t>(bytes_.size()));
  bytes_.push_back(0);
}

ByteCorpus ByteCorpus::load(const std::vector<TextFile>& files, const std::string& key) {
  ByteCorpus corpus;
  const uint64_t total = total_size(files);
  try {
    corpus.bytes_.reserve(total);
    for (const TextFile& file : files) corpus.append_file(file, key);
  } catch (const std::bad_alloc&) {
    throw data_error(key + ": the files hold " + human_bytes(total) +
                     ", which do not fit in memory; name fewer files");
  }
  if (corpus.ends_.empty())
    throw data_error(key + ": all " + std::to_string(files.size()) + " matching files are empty");
  return corpus;
}

void ByteCorpus::read(int64_t begin, int64_t count, int64_t* out) const {
  std::copy_n(bytes_.begin() + begin, count, out);
  for (auto end = std::lower_bound(ends_.begin(), ends_.end(), begin);
       end != ends_.end() && *end < begin + count; ++end) {
    out[*end - begin] = kEndOfText;
  }
}

uint64_t ByteCorpus::checksum(int64_t begin, int64_t end) const {
  Checksum sum;
  sum.update(std::as_bytes(
      std::span(bytes_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))));
  // Relative to the slice, so that the same tokens have the same checksum wherever they stand.
  for (auto it = std::lower_bound(ends_.begin(), ends_.end(), begin);
       it != ends_.end() && *it < end; ++it) {
    const int64_t at = *it - begin;
    sum.update(std::as_bytes(std::span(&at, 1)));
  }
  return sum.digest();
}

}  // namespace trainctl
