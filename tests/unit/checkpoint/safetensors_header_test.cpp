// Hostile headers (docs/testing.md, case G3): each is refused with its reason, before anything is
// allocated for what it claims.
#include "checkpoint/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace trainctl {
namespace {

using ::testing::HasSubstr;

std::string with_length(uint64_t length, const std::string& rest) {
  std::string out(8, '\0');
  for (size_t i = 0; i < 8; ++i) {
    out[i] = static_cast<char>(length >> (8 * i) & 0xff);
  }
  return out + rest;
}

std::string file_of(const std::string& json, size_t data_bytes = 0) {
  return with_length(json.size(), json) + std::string(data_bytes, 'x');
}

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)));
}

// Why the file is refused; empty when it is not.
std::string refusal(const std::string& file) {
  try {
    parse(file);
    return "";
  } catch (const HeaderError& error) {
    return error.what();
  }
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}";
}

TEST(SafetensorsHeader, ReadsTensorsAndMetadata) {
  const SafetensorsHeader header =
      parse(file_of(R"({"__metadata__":{"format":"pt"},)" + tensor("w", "F32", "[2,1]", "[0,8]") +
                        "," + tensor("ключ", "BF16", "[]", "[8,10]") + "}   ",
                    10));
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_EQ(header.tensors.at("w").type, StoredType::kF32);
  EXPECT_EQ(header.tensors.at("w").shape, (std::vector<int64_t>{2, 1}));
  EXPECT_TRUE(header.tensors.at("ключ").shape.empty());
  EXPECT_EQ(header.tensors.at("ключ").begin, 8u);
  EXPECT_EQ(header.tensors.at("ключ").end, 10u);
}

TEST(SafetensorsHeader, AcceptsEmptyTensorsWhereverTheyLie) {
  EXPECT_EQ(refusal(file_of("{" + tensor("a", "F32", "[0]", "[0,0]") + "," +
                                tensor("b", "F32", "[1]", "[0,4]") + "," +
                                tensor("c", "F32", "[3,0]", "[4,4]") + "}",
                            4)),
            "");
  EXPECT_EQ(refusal(file_of("{}")), "");
}

TEST(SafetensorsHeader, RefusesImpossibleLengths) {
  EXPECT_THAT(refusal(""), HasSubstr("0 bytes"));
  EXPECT_THAT(refusal("1234567"), HasSubstr("7 bytes"));
  EXPECT_THAT(refusal(with_length(0, "{}")), HasSubstr("says 0 bytes"));
  EXPECT_THAT(refusal(with_length(1, "{}")), HasSubstr("too few"));
  EXPECT_THAT(refusal(with_length(std::numeric_limits<uint64_t>::max(), "{}")),
              HasSubstr("18446744073709551615"));
  EXPECT_THAT(refusal(with_length(uint64_t{1} << 40, "{}")), HasSubstr("limit"));
  EXPECT_THAT(refusal(with_length(100'000'001, std::string(100'000'001, ' '))),
              HasSubstr("limit of 100000000"));
  EXPECT_THAT(refusal(with_length(3, "{}")), HasSubstr("only 2 follow"));
  EXPECT_THAT(refusal(with_length(std::numeric_limits<uint64_t>::max() - 6, "{}")),
              HasSubstr("limit"));
}

TEST(SafetensorsHeader, RefusesSpansThatDoNotTile) {
  const auto two = [](const std::string& a, const std::string& b) {
    return refusal(
        file_of("{" + tensor("a", "U8", "[4]", a) + "," + tensor("b", "U8", "[4]", b) + "}", 8));
  };
  EXPECT_EQ(two("[0,4]", "[4,8]"), "");
  EXPECT_EQ(two("[4,8]", "[0,4]"), "");
  EXPECT_THAT(two("[4,0]", "[4,8]"), HasSubstr("reversed"));
  EXPECT_THAT(two("[0,4]", "[2,6]"), HasSubstr("overlap"));
  EXPECT_THAT(two("[0,4]", "[0,4]"), HasSubstr("overlap"));
  EXPECT_THAT(two("[0,4]", "[5,9]"), HasSubstr("past the end"));
  EXPECT_THAT(two("[0,4]", "[9223372036854775803,9223372036854775807]"), HasSubstr("past the end"));
  EXPECT_THAT(refusal(file_of("{" + tensor("a", "U8", "[4]", "[1,5]") + "}", 5)),
              HasSubstr("hole"));
  EXPECT_THAT(refusal(file_of("{" + tensor("a", "U8", "[4]", "[0,4]") + "}", 5)),
              HasSubstr("the file has 5 bytes"));
  EXPECT_THAT(refusal(file_of("{}", 1)), HasSubstr("the file has 1 bytes"));
}

TEST(SafetensorsHeader, RefusesAFileCutAnywhere) {
  const std::string whole = file_of("{" + tensor("a", "F32", "[4]", "[0,16]") + "}", 16);
  ASSERT_EQ(refusal(whole), "");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(refusal(whole.substr(0, size)), "") << size;
  }
}

TEST(SafetensorsHeader, RefusesShapesThatDoNotMatchTheSpan) {
  const auto one = [](const std::string& dtype, const std::string& shape) {
    return refusal(file_of("{" + tensor("a", dtype, shape, "[0,8]") + "}", 8));
  };
  EXPECT_EQ(one("F32", "[2]"), "");
  EXPECT_THAT(one("F32", "[3]"), HasSubstr("takes 12 bytes"));
  EXPECT_THAT(one("F64", "[2]"), HasSubstr("takes 16 bytes"));
  EXPECT_THAT(one("F32", "[0]"), HasSubstr("takes 0 bytes"));
  // Products that wrap round to 8 bytes in 64 bits.
  EXPECT_THAT(one("F32", "[4294967296,4294967296,2]"), HasSubstr("63 bits"));
  EXPECT_THAT(one("U8", "[4611686018427387904,4,1]"), HasSubstr("63 bits"));
  // Empty, but with strides that overflow.
  EXPECT_THAT(refusal(file_of("{" + tensor("a", "U8", "[0,9223372036854775807,4]", "[0,0]") + "}")),
              HasSubstr("63 bits"));
  std::string many = "[1";
  for (int i = 0; i < 64; ++i) {
    many += ",1";
  }
  EXPECT_THAT(one("F64", many + "]"), HasSubstr("more than 64"));
}

TEST(SafetensorsHeader, RefusesRepeatedKeys) {
  const std::string a = tensor("a", "U8", "[0]", "[0,0]");
  EXPECT_THAT(refusal(file_of("{" + a + "," + a + "}")), HasSubstr("'a' stands twice"));
  EXPECT_THAT(refusal(file_of(R"({"__metadata__":{},"__metadata__":{}})")), HasSubstr("twice"));
  EXPECT_THAT(refusal(file_of(R"({"__metadata__":{"k":"1","k":"2"}})")), HasSubstr("'k' stands"));
  EXPECT_THAT(
      refusal(file_of(R"({"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})")),
      HasSubstr("'dtype' twice"));
  // The same name, written in two ways.
  EXPECT_THAT(refusal(file_of("{" + a + "," + tensor("\\u0061", "U8", "[0]", "[0,0]") + "}")),
              HasSubstr("'a' stands twice"));
}

struct Malformed {
  const char* json;
  const char* reason;
};

class MalformedHeader : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedHeader, IsRefusedWithItsReason) {
  EXPECT_THAT(refusal(file_of(GetParam().json)), HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, MalformedHeader,
    ::testing::Values(
        Malformed{"[]", "begin with '{'"}, Malformed{" {}", "begin with '{'"},
        Malformed{"\"a\"", "begin with '{'"}, Malformed{"{]", "not valid JSON"},
        Malformed{"{} x", "not valid JSON"}, Malformed{"{}{}", "not valid JSON"},
        Malformed{R"({"a":)", "not valid JSON"}, Malformed{R"({"a)", "not valid JSON"},
        Malformed{R"({"a":1})", "'a' must be an object, not the number 1"},
        Malformed{R"({"a":null})", "not null"}, Malformed{R"({"a":true})", "not true or false"},
        Malformed{R"({"a":[]})", "'a' must be an object, not an array"},
        Malformed{R"({"a":"x"})", "not a string"},
        Malformed{R"({"a":{"shape":[0],"data_offsets":[0,0]}})", "has no dtype"},
        Malformed{R"({"a":{"dtype":"U8","data_offsets":[0,0]}})", "has no shape"},
        Malformed{R"({"a":{"dtype":"U8","shape":[0]}})", "has no data_offsets"},
        Malformed{R"({"a":{"dtype":"F31","shape":[0],"data_offsets":[0,0]}})",
                  "unknown dtype 'F31'"},
        Malformed{R"({"a":{"dtype":"f32","shape":[0],"data_offsets":[0,0]}})", "unknown dtype"},
        Malformed{R"({"a":{"dtype":1,"shape":[0],"data_offsets":[0,0]}})",
                  "dtype of tensor 'a' must be a string"},
        Malformed{R"({"a":{"dtype":["U8"],"shape":[0],"data_offsets":[0,0]}})", "must be a string"},
        Malformed{R"({"a":{"dtype":"U8","shape":0,"data_offsets":[0,0]}})",
                  "shape of tensor 'a' must be an array"},
        Malformed{R"({"a":{"dtype":"U8","shape":"0","data_offsets":[0,0]}})", "must be an array"},
        Malformed{R"({"a":{"dtype":"U8","shape":{},"data_offsets":[0,0]}})", "not an object"},
        Malformed{R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})",
                  "the negative number -1"},
        Malformed{R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,0]}})", "'1.0'"},
        Malformed{R"({"a":{"dtype":"U8","shape":[1e1],"data_offsets":[0,0]}})", "'1e1'"},
        Malformed{R"({"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,0]}})", "not a string"},
        Malformed{R"({"a":{"dtype":"U8","shape":[null],"data_offsets":[0,0]}})", "not null"},
        Malformed{R"({"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,0]}})",
                  "exceeds 2^63"},
        Malformed{R"({"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,0]}})",
                  "not a 64-bit integer"},
        Malformed{R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[]}})",
                  "0 numbers instead of 2"},
        Malformed{R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0]}})", "1 numbers"},
        Malformed{R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}})", "more than 2"},
        Malformed{R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[[0],0]}})", "not an array"},
        Malformed{R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,-0]}})", "negative"},
        Malformed{R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":1}})",
                  "unknown key 'x'"},
        Malformed{R"({"__metadata__":[]})", "not an array"},
        Malformed{R"({"__metadata__":"x"})", "not a string"},
        Malformed{R"({"__metadata__":{"k":1}})", "metadata 'k' must be a string"},
        Malformed{R"({"__metadata__":{"k":{}}})", "metadata 'k' must be a string"},
        Malformed{R"({"__metadata__":{"k":null}})", "metadata 'k' must be a string"},
        Malformed{"{\"\xff\":1}", "UTF-8"}, Malformed{"{\"\xc0\xaf\":1}", "UTF-8"},
        Malformed{"{\"\xed\xa0\x80\":1}", "UTF-8"}, Malformed{R"({"\ud800":1})", "UTF-8"},
        Malformed{"\xef\xbb\xbf{}", "begin with '{'"}));

TEST(SafetensorsHeader, RefusesANulThatWouldHideWhatFollows) {
  EXPECT_THAT(refusal(file_of(std::string("{}\0\"a\":1}", 9))), HasSubstr("NUL"));
}

TEST(SafetensorsHeader, RefusesDeepNestingWithoutFollowingIt) {
  const std::string deep(1'000'000, '[');
  EXPECT_THAT(refusal(file_of(R"({"a":)" + deep)), HasSubstr("not an array"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) {
    objects += R"({"a":)";
  }
  EXPECT_THAT(refusal(file_of(objects)), HasSubstr("unknown key 'a'"));
}

TEST(SafetensorsHeader, MessagesShortenAndDisarmNames) {
  const std::string name = "\\u001b[2J" + std::string(100'000, 'n');
  const std::string message = refusal(file_of("{\"" + name + "\":1}"));
  EXPECT_LT(message.size(), 300u);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_THAT(message, HasSubstr("'?[2Jnnn"));
}

TEST(SafetensorsHeader, WrittenHeadersArePaddedToEightAndReadBack) {
  for (size_t pad = 0; pad < 9; ++pad) {
    const std::string header =
        format_safetensors_header({{"b", {StoredType::kF32, {2}, 0, 8}},
                                   {std::string(pad, 'a'), {StoredType::kU8, {}, 8, 9}}},
                                  {{"k", std::string("\"\n\x01ü")}});
    EXPECT_EQ(header.size() % 8, 0u);
    const SafetensorsHeader read = parse(header + std::string(9, 'x'));
    EXPECT_EQ(read.metadata.at("k"), "\"\n\x01ü");
    EXPECT_EQ(read.tensors.at("b").shape, std::vector<int64_t>{2});
    EXPECT_EQ(read.data_start, header.size());
  }
  EXPECT_THROW(format_safetensors_header({{"\xff", {}}}, {}), HeaderError);
}

TEST(SafetensorsHeader, WritesOffsetsBeyondFourGigabytes) {
  constexpr uint64_t kLarge = uint64_t{1} << 33;
  const std::string header =
      format_safetensors_header({{"large", {StoredType::kF32, {int64_t{1} << 30, 2}, 0, kLarge}},
                                 {"small", {StoredType::kU8, {3}, kLarge, kLarge + 3}}},
                                {});
  EXPECT_THAT(header, HasSubstr("[0,8589934592]"));
  EXPECT_THAT(header, HasSubstr("[8589934592,8589934595]"));
}

}  // namespace
}  // namespace trainctl
