// Drives a libFuzzer target without libFuzzer: every file of the corpus folder as it is, cut at
// every byte, and under seeded random mutations. The same on every machine and with every compiler.
//   program CORPUS_FOLDER [MUTATIONS_PER_FILE]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

void try_input(const Bytes& bytes) {
  // Exactly as large as the input, so that a sanitizer sees the first byte read past its end.
  const Bytes exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

size_t below(std::mt19937_64& random, size_t bound) { return bound == 0 ? 0 : random() % bound; }

void mutate(Bytes& bytes, const Bytes& other, std::mt19937_64& random) {
  static const std::vector<std::string> kWords = {"18446744073709551615",
                                                  "9223372036854775808",
                                                  "-1",
                                                  "0",
                                                  "1e3",
                                                  "null",
                                                  "{",
                                                  "}",
                                                  "[",
                                                  "]",
                                                  ",",
                                                  ":",
                                                  "\"",
                                                  "\\u",
                                                  " ",
                                                  "\"shape\":",
                                                  "\"dtype\":",
                                                  "\"__metadata__\":{",
                                                  "BF16",
                                                  "\xed\xa0\x80"};
  const size_t at = below(random, bytes.size() + 1);
  const auto position = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  switch (below(random, 6)) {
    case 0:
      if (at < bytes.size()) {
        bytes[at] ^= static_cast<uint8_t>(1u << below(random, 8));
      }
      break;
    case 1:
      if (at < bytes.size()) {
        bytes[at] = static_cast<uint8_t>(random());
      }
      break;
    case 2: {
      const size_t count = std::min(bytes.size() - at, below(random, 16));
      bytes.erase(position, position + static_cast<std::ptrdiff_t>(count));
      break;
    }
    case 3: {
      const std::string& word = kWords[below(random, kWords.size())];
      bytes.insert(position, word.begin(), word.end());
      break;
    }
    case 4: {  // a piece of another file of the corpus
      const size_t from = below(random, other.size());
      const size_t count = std::min(other.size() - from, below(random, 64));
      const auto begin = other.begin() + static_cast<std::ptrdiff_t>(from);
      const Bytes piece(begin, begin + static_cast<std::ptrdiff_t>(count));
      bytes.insert(position, piece.begin(), piece.end());
      break;
    }
    default:  // the length in front, so that what follows is read as a header at all
      if (bytes.size() >= 8) {
        const size_t length = below(random, bytes.size());
        for (size_t i = 0; i < 8; ++i) {
          bytes[i] = static_cast<uint8_t>(uint64_t{length} >> (8 * i));
        }
      }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "%s CORPUS_FOLDER [MUTATIONS_PER_FILE]\n", argv[0]);
    return 2;
  }
  const int mutations = argc > 2 ? std::atoi(argv[2]) : 5000;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> corpus;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "no files in %s\n", argv[1]);
    return 1;
  }
  std::mt19937_64 random(1);
  size_t inputs = 0;
  for (const Bytes& seed : corpus) {
    for (size_t size = 0; size <= seed.size(); ++size, ++inputs) {
      try_input(Bytes(seed.begin(), seed.begin() + static_cast<std::ptrdiff_t>(size)));
    }
    for (int i = 0; i < mutations; ++i, ++inputs) {
      Bytes bytes = seed;
      for (size_t n = 1 + below(random, 8); n-- > 0;) {
        mutate(bytes, corpus[below(random, corpus.size())], random);
      }
      try_input(bytes);
    }
  }
  std::printf("%zu inputs from %zu files\n", inputs, corpus.size());
  return 0;
}
