#include "trainctl/text/utf8.h"

#include <gtest/gtest.h>

#include "trainctl/text/byte_tokenizer.h"

namespace trainctl {
namespace {

const std::string kFffd = "\xEF\xBF\xBD";

TEST(Utf8, AcceptsEveryLengthAndItsLimits) {
  for (const char* text :
       {"", "plain", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_FALSE(find_invalid_utf8(text)) << text;
    EXPECT_EQ(replace_invalid_utf8(text), text);
  }
}

TEST(Utf8, NamesTheOffsetOfTheFirstBadSequence) {
  // A lone continuation, overlong forms, surrogates, above U+10FFFF, cut sequences, impossible
  // bytes.
  for (const char* bad :
       {"\x80", "\xC0\xAF", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF", "\xED\xA0\x80",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xC3", "\xE2\x82", "\xFF", "\xFE"}) {
    for (const std::string before :
         {"", "abc", "twelve chars", "sechzehn Zeichen", "gr\xC3\xBC\xC3\x9F"}) {
      EXPECT_EQ(find_invalid_utf8(before + bad), before.size()) << before;
      EXPECT_EQ(find_invalid_utf8(before + bad + " and more text"), before.size()) << before;
    }
  }
}

TEST(Utf8, FindsABadByteAtEveryPositionOfAWord) {
  for (size_t at = 0; at < 40; ++at) {
    std::string text(40, 'x');
    text[at] = '\xE9';
    EXPECT_EQ(find_invalid_utf8(text), at);
  }
}

TEST(Utf8, ReplacesMaximalParts) {
  // Examples of the Unicode Standard, section 3.9, tables 3-8 to 3-11.
  const auto times = [&](int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += kFffd;
    return out;
  };
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), times(8) + "A");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), times(8) + "A");
  EXPECT_EQ(replace_invalid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            times(5) + "A" + times(2) + "B");
  EXPECT_EQ(replace_invalid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), times(4) + "A");
}

TEST(Utf8, ShowsControlsSoThatTheyCannotDriveATerminal) {
  EXPECT_EQ(show_controls("a\x1B[31mb\r\x7F\n\tc"),
            "a\xE2\x90\x9B[31mb\xE2\x90\x8D\xE2\x90\xA1\n\tc");
  EXPECT_EQ(show_controls("\xC2\x9B"
                          "31m \xC3\xBC \xC2\xA0"),
            kFffd + "31m \xC3\xBC \xC2\xA0");
  EXPECT_EQ(show_controls(std::string_view("\0", 1)), "\xE2\x90\x80");
}

TEST(ByteTokenizer, RoundTripsText) {
  const std::string text = "Gr\xC3\xBC\xC3\x9F dich, \xF0\x9F\x8C\x8D\n";
  const std::vector<int64_t> ids = encode_bytes(text);
  EXPECT_EQ(ids.size(), text.size());
  EXPECT_EQ(ids[2], 0xC3);
  EXPECT_EQ(decode_bytes(ids), text);
}

TEST(ByteTokenizer, DecodesWhateverAModelDraws) {
  const std::vector<int64_t> ids = {'a', 0xC3, kEndOfText, 0xC3, 0xBC, 257, -1, 0xF0, 0x9F};
  EXPECT_EQ(decode_bytes(ids), "a" + kFffd + "<|endoftext|>\xC3\xBC" + kFffd + kFffd + kFffd);
  EXPECT_FALSE(find_invalid_utf8(decode_bytes(ids)));
}

}  // namespace
}  // namespace trainctl
