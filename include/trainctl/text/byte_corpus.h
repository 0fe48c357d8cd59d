// Text files joined into one stream of byte tokens (docs/data.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trainctl {

struct TextFile {
  std::filesystem::path path;
  bool from_glob = false;  // an empty file is then passed over; one named outright is an error
};

// The files that paths and globs name: in the order of the list, a glob's own files sorted by name,
// each file once (also when it is reached by two names). `key` is the config key for messages.
// Throws data_error for a missing file, a folder, anything else that is no regular file, or a glob
// without matches.
std::vector<TextFile> resolve_text_files(const std::vector<std::string>& patterns,
                                         const std::string& key);

// What reading changed, so that it can be said once.
struct TextReadCounts {
  int64_t files = 0;        // that hold text
  int64_t empty_files = 0;  // passed over
  int64_t byte_order_marks = 0, crlf = 0, lone_cr = 0;
};

// The tokens of all files, end of text after each. They take one byte each: a document's end stands
// as a position in a sorted list, not as a wider token. In memory and not mapped, because a file
// that is edited or cut while a run reads it would change the data under it, or end it with SIGBUS.
class ByteCorpus {
 public:
  // Drops a byte order mark, turns CRLF and lone CR into LF, and throws data_error for invalid
  // UTF-8, unreadable files, and when there is no text at all.
  static ByteCorpus load(const std::vector<TextFile>& files, const std::string& key);

  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  // Writes tokens [begin, begin + count).
  void read(int64_t begin, int64_t count, int64_t* out) const;
  // Of tokens [begin, end): XXH3 over their bytes and the ends of text among them.
  uint64_t checksum(int64_t begin, int64_t end) const;
  const TextReadCounts& counts() const { return counts_; }

 private:
  void append_file(const TextFile& file, const std::string& key);

  std::vector<uint8_t> bytes_;  // 0 stands where a document ends
  std::vector<int64_t> ends_;   // positions of end of text, ascending
  TextReadCounts counts_;
};

}  // namespace trainctl
