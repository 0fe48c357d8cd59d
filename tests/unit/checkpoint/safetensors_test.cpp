#include "trainctl/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "support/testing.h"

namespace trainctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SafetensorsTest : public ::testing::Test {
 protected:
  fs::path file() const { return folder_ / "t.safetensors"; }
  size_t files_in_folder() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  std::string bytes() const { return read_file(file(), ExitCode::kCheckpoint); }

  template <typename Action>
  std::string refusal(const Action& action) {
    return refusal_of(ExitCode::kCheckpoint, action);
  }

  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
};

bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         std::memcmp(a.contiguous().const_data_ptr(), b.contiguous().const_data_ptr(),
                     a.nbytes()) == 0;
}

TEST_F(SafetensorsTest, EveryTypeAndShapeComesBack) {
  std::vector<TensorEntry> entries;
  for (const at::ScalarType type :
       {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kBFloat16,
        at::kFloat, at::kDouble, at::kUInt16, at::kUInt32, at::kUInt64, at::kFloat8_e5m2,
        at::kFloat8_e4m3fn, at::kFloat8_e8m0fnu}) {
    const std::string name = at::toString(type);
    // Through bytes: not every type has kernels to fill it.
    const auto count = static_cast<int64_t>(6 * at::elementSize(type));
    at::Tensor raw = at::arange(count, at::kByte);
    entries.push_back(
        {name, type == at::kBool ? raw.remainder(2).to(at::kBool) : raw.view(type).view({2, 3})});
    entries.push_back(
        {name + ".scalar", raw.slice(0, 0, count / 6).remainder(2).view(type).view({})});
    entries.push_back({name + ".empty", at::empty({2, 0, 3}, type)});
  }
  const WrittenFile written =
      write_safetensors(file(), entries, {{"format", "pt"}, {"ключ", "\"значение\"\n"}});
  EXPECT_EQ(written.bytes, fs::file_size(file()));
  const std::string content = bytes();
  EXPECT_EQ(written.xxh3, checksum(std::as_bytes(std::span(content))));

  const SafetensorsFile read(file(), written);
  EXPECT_EQ(read.names().size(), entries.size());
  for (const TensorEntry& entry : entries) {
    EXPECT_TRUE(read.contains(entry.name));
    EXPECT_TRUE(same(read.tensor(entry.name), entry.tensor)) << entry.name;
  }
  EXPECT_EQ(read.metadata().at("ключ"), "\"значение\"\n");
}

TEST_F(SafetensorsTest, TensorsOutliveTheFileAndItsName) {
  at::Tensor kept;
  {
    write_safetensors(file(), {{"a", at::arange(1000, at::kFloat)}}, {});
    const SafetensorsFile read(file());
    kept = read.tensor("a");
    EXPECT_EQ(kept.const_data_ptr(), read.tensor("a").const_data_ptr());  // mapped, not copied
  }
  fs::remove(file());
  EXPECT_TRUE(at::equal(kept, at::arange(1000, at::kFloat)));
}

TEST_F(SafetensorsTest, StridesAreWrittenInRowMajorOrder) {
  const at::Tensor base = at::arange(24, at::kFloat).view({2, 3, 4});
  write_safetensors(file(),
                    {{"transposed", base.permute({2, 0, 1})},
                     {"sliced", base.slice(2, 1, 4, 2)},
                     {"expanded", base.select(0, 1).unsqueeze(0).expand({3, 3, 4})}},
                    {});
  const SafetensorsFile read(file());
  EXPECT_TRUE(same(read.tensor("transposed"), base.permute({2, 0, 1})));
  EXPECT_TRUE(same(read.tensor("sliced"), base.slice(2, 1, 4, 2)));
  EXPECT_TRUE(same(read.tensor("expanded"), base.select(0, 1).unsqueeze(0).expand({3, 3, 4})));
}

TEST_F(SafetensorsTest, LargeStridedTensorsAreWrittenInPieces) {
  // Several pieces of 64 MiB, by rows and, where one row exceeds a piece, within it.
  const at::Tensor tall = at::arange(40'000'000, at::kInt).view({4000, 10'000}).t();
  const at::Tensor flat = tall.reshape({-1}).slice(0, 0, 36'000'000).view({1, 2, 18'000'000});
  write_safetensors(file(), {{"tall", tall}, {"flat", flat.transpose(1, 2)}}, {});
  const SafetensorsFile read(file());
  EXPECT_TRUE(at::equal(read.tensor("tall"), tall));
  EXPECT_TRUE(at::equal(read.tensor("flat"), flat.transpose(1, 2)));
}

TEST_F(SafetensorsTest, DataAreAlignedAndSortedAsTheReferenceDoes) {
  write_safetensors(file(),
                    {{"b", at::ones({1}, at::kByte)},
                     {"z", at::ones({1}, at::kFloat)},
                     {"a", at::ones({3}, at::kByte)},
                     {"y", at::ones({1}, at::kFloat)},
                     {"h", at::ones({1}, at::kLong)}},
                    {});
  const std::string text = bytes();
  std::vector<size_t> positions;
  for (const char* name : {"\"h\"", "\"y\"", "\"z\"", "\"a\"", "\"b\""}) {
    positions.push_back(text.find(name));
  }
  EXPECT_TRUE(std::is_sorted(positions.begin(), positions.end()));
  EXPECT_EQ((text.size() - 20) % 8, 0u);  // 8 + 4 + 4 + 3 + 1 bytes of data
}

TEST_F(SafetensorsTest, MisalignedTensorsOfOtherWritersAreCopied) {
  const std::string json = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                           R"("b":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})";
  const float values[2] = {1.5f, -2.0f};
  std::string data(8, '\0');
  data[0] = static_cast<char>(json.size());
  data += json + "x" + std::string(reinterpret_cast<const char*>(values), 8);
  std::ofstream(file(), std::ios::binary) << data;
  const at::Tensor b = SafetensorsFile(file()).tensor("b");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.const_data_ptr()) % 4, 0u);
  EXPECT_TRUE(at::equal(b, at::tensor({1.5f, -2.0f})));
}

TEST_F(SafetensorsTest, RefusalsNameTheFileAndTheReason) {
  EXPECT_THAT(refusal([&] { SafetensorsFile read(file()); }),
              ::testing::AllOf(HasSubstr(file().string()), HasSubstr("No such file")));
  EXPECT_THAT(refusal([&] { SafetensorsFile read(folder_); }), HasSubstr("directory"));
  std::ofstream(file()).flush();
  EXPECT_THAT(refusal([&] { SafetensorsFile read(file()); }), HasSubstr("0 bytes"));

  const WrittenFile written = write_safetensors(file(), {{"weight", at::ones({8})}}, {});
  EXPECT_THAT(refusal([&] { SafetensorsFile(file()).tensor("wieght"); }),
              ::testing::AllOf(HasSubstr("no tensor 'wieght'"), HasSubstr("'weight'")));
  EXPECT_THAT(refusal([&] {
                SafetensorsFile read(file(), {written.bytes + 1, written.xxh3});
              }),
              HasSubstr("bytes instead of"));
  std::fstream(file(), std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(written.bytes) - 1)
      .put('\x01');
  EXPECT_EQ(refusal([&] { SafetensorsFile read(file()); }), "");
  EXPECT_THAT(refusal([&] { SafetensorsFile read(file(), written); }), HasSubstr("checksum"));
  fs::resize_file(file(), written.bytes - 1);
  EXPECT_THAT(refusal([&] { SafetensorsFile read(file()); }), HasSubstr("is the file cut"));
}

TEST_F(SafetensorsTest, AHugeClaimCostsNoMemory) {
  // 2^40 elements in a sparse file would be mapped, never touched; here there is not even that.
  const std::string json =
      R"({"a":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}})";
  std::string data(8, '\0');
  data[0] = static_cast<char>(json.size());
  std::ofstream(file(), std::ios::binary) << data << json;
  EXPECT_THAT(refusal([&] { SafetensorsFile read(file()); }), HasSubstr("past the end"));
}

TEST_F(SafetensorsTest, OffsetsBeyondFourGigabytesAreRight) {
  const uint64_t big = uint64_t{5} << 30;
  const std::string json = R"({"pad":{"dtype":"U8","shape":[)" + std::to_string(big) +
                           R"(],"data_offsets":[0,)" + std::to_string(big) +
                           R"(]},"end":{"dtype":"I64","shape":[1],"data_offsets":[)" +
                           std::to_string(big) + "," + std::to_string(big + 8) + "]}}";
  const std::string padded = json + std::string((8 - json.size() % 8) % 8, ' ');
  std::string data(8, '\0');
  data[0] = static_cast<char>(padded.size());
  std::ofstream(file(), std::ios::binary) << data << padded;
  fs::resize_file(file(), 8 + padded.size() + big);  // sparse
  const int64_t mark = 123456789012345;
  std::ofstream(file(), std::ios::binary | std::ios::app)
      .write(reinterpret_cast<const char*>(&mark), 8);
  EXPECT_EQ(SafetensorsFile(file()).tensor("end").item<int64_t>(), mark);
}

TEST_F(SafetensorsTest, AFailedWriteLeavesTheOldFileAndNothingElse) {
  write_safetensors(file(), {{"old", at::ones({4})}}, {});
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = before;
  limit.rlim_cur = 100'000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string message = refusal([&] {
    write_safetensors(file(), {{"new", at::ones({100'000})}}, {});
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, ::testing::AllOf(HasSubstr(file().string()), HasSubstr("File too large"),
                                        HasSubstr("ulimit -f")));
  EXPECT_EQ(files_in_folder(), 1u);
  EXPECT_THAT(SafetensorsFile(file()).names(), ElementsAre("old"));
  EXPECT_THAT(refusal([&] { write_safetensors(folder_ / "no" / "file", {}, {}); }),
              HasSubstr("No such file"));
}

TEST_F(SafetensorsTest, ImpossibleEntriesAreDefects) {
  EXPECT_THROW(write_safetensors(file(), {{"a", at::ones({1})}, {"a", at::ones({1})}}, {}),
               std::invalid_argument);
  EXPECT_THROW(write_safetensors(file(), {{"__metadata__", at::ones({1})}}, {}),
               std::invalid_argument);
  EXPECT_THROW(write_safetensors(file(), {{"a", at::ones({1}, at::kComplexFloat)}}, {}),
               std::invalid_argument);
  EXPECT_THAT(refusal([&] {
                write_safetensors(file(), {{"\xff", at::ones({1})}}, {});
              }),
              HasSubstr("UTF-8"));
  EXPECT_EQ(files_in_folder(), 0u);
}

}  // namespace
}  // namespace trainctl
