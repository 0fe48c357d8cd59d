#include "config/json_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainctl {
namespace {

using ::testing::HasSubstr;

struct SyntaxCase {
  const char* name;
  std::string text;
  int64_t line, column;
  const char* words;
};

void PrintTo(const SyntaxCase& c, std::ostream* out) { *out << c.name; }

class JsonSyntax : public ::testing::TestWithParam<SyntaxCase> {};

TEST_P(JsonSyntax, IsExplainedInPlainWords) {
  const JsonResult result = parse_json(GetParam().text);
  EXPECT_FALSE(result.complete);
  ASSERT_EQ(result.problems.size(), 1U);
  EXPECT_THAT(result.problems[0].text, HasSubstr(GetParam().words));
  EXPECT_EQ(result.problems[0].line, GetParam().line);
  EXPECT_EQ(result.problems[0].column, GetParam().column);
}

std::string nested(size_t depth) { return std::string(depth, '['); }

INSTANTIATE_TEST_SUITE_P(
    All, JsonSyntax,
    ::testing::Values(
        SyntaxCase{"Empty", "", 1, 1, "empty or has only comments"},
        SyntaxCase{"OnlySpace", " \n\n ", 3, 2, "empty or has only comments"},
        SyntaxCase{"OnlyComment", "// nothing", 1, 11, "empty or has only comments"},
        SyntaxCase{"TrailingComma", "{\n\"a\": 1,\n}", 2, 7, "comma before '}'"},
        SyntaxCase{"TrailingCommaBeforeComment", "{\"a\": 1, // x,y\n}", 1, 8, "comma before '}'"},
        SyntaxCase{"TrailingCommaInArray", "[1,\n2,]", 2, 2, "comma before ']'"},
        SyntaxCase{"TextAfterTheEnd", "{}\n{}", 2, 1, "more text after the end"},
        SyntaxCase{"UnclosedObject", "{\"a\": {\n\"b\": 1", 2, 7, "begun on line 1 is not closed"},
        SyntaxCase{"UnclosedString", "{\"a\": \"x\n}", 1, 7, "string is not closed"},
        SyntaxCase{"NaN", "{\"a\": NaN}", 1, 7, "NaN is not a JSON number"},
        SyntaxCase{"Nan", "{\"a\": nan}", 1, 7, "nan is not a JSON number"},
        SyntaxCase{"Infinity", "{\"a\": -Infinity}", 1, 7, "-Infinity is not a JSON number"},
        SyntaxCase{"PythonTrue", "{\"a\": True}", 1, 7, "write true"},
        SyntaxCase{"PythonNone", "{\"a\": None}", 1, 7, "leave the key out"},
        SyntaxCase{"BareWord", "{\"a\": adamw}", 1, 7, "needs double quotes"},
        SyntaxCase{"BareKey", "{a: 1}", 1, 2, "write \"a\""},
        SyntaxCase{"SingleQuotes", "{\"a\": 'x'}", 1, 7, "double quotes"},
        SyntaxCase{"SingleQuotedKey", "{'a': 1}", 1, 2, "double quotes"},
        SyntaxCase{"MissingComma", "{\"a\": 1\n\"b\": 2}", 2, 1, "comma is missing"},
        SyntaxCase{"MissingColon", "{\"a\" 1}", 1, 6, "':' is missing"},
        SyntaxCase{"Equals", "{\"a\" = 1}", 1, 6, "write ':'"},
        SyntaxCase{"MissingValue", "{\"a\": ,\"b\": 1}", 1, 7, "value is missing"},
        SyntaxCase{"MissingLastValue", "{\"a\": }", 1, 7, "value is missing"},
        SyntaxCase{"DoubleComma", "{\"a\": 1,,\"b\": 1}", 1, 9, "value is missing"},
        SyntaxCase{"HashComment", "{\n# x\n}", 2, 1, "comments begin with //"},
        SyntaxCase{"OpenComment", "{} /* x", 1, 4, "not closed"},
        SyntaxCase{"LeadingPoint", "{\"a\": .5}", 1, 7, "digit before the decimal point"},
        SyntaxCase{"PlusSign", "{\"a\": +1}", 1, 7, "without '+'"},
        SyntaxCase{"LeadingZero", "{\"a\": 01}", 1, 7, "must not begin with a zero"},
        SyntaxCase{"TooLargeNumber", "{\"a\": 1e999}", 1, 7, "beyond what a 64-bit"},
        SyntaxCase{"Backslash", "{\"a\": \"C:\\data\"}", 1, 7, "write \\\\"},
        SyntaxCase{"ControlCharacter", "{\"a\": \"x\ty\"}", 1, 7, "control character"},
        SyntaxCase{"LoneSurrogate", "{\"a\": \"\\uD800\"}", 1, 7, "surrogates come in pairs"},
        SyntaxCase{"TooDeep", nested(40), 1, 33, "nested deeper than 32"},
        SyntaxCase{"NulByte", std::string("{\n\0}", 4), 2, 1, "NUL byte at offset 2"},
        SyntaxCase{"BadUtf8", "{\n\"a\": \"\xff\"}", 2, 7, "byte 0xFF at offset 8"},
        SyntaxCase{"BadUtf8AfterMark", "\xEF\xBB\xBF{\"a\": \"\xC3\"}", 1, 8, "offset 10"},
        SyntaxCase{"OverlongUtf8", "{\"a\": \"\xC0\xAF\"}", 1, 8, "not valid UTF-8"},
        SyntaxCase{"SurrogateUtf8", "{\"a\": \"\xED\xA0\x80\"}", 1, 8, "not valid UTF-8"},
        SyntaxCase{"Utf16", "\xFF\xFE{", 1, 1, "UTF-16"}),
    [](const auto& test) { return test.param.name; });

TEST(ParseJson, DropsByteOrderMark) {
  const JsonResult result = parse_json("\xEF\xBB\xBF{\"a\": 1}");
  EXPECT_TRUE(result.complete);
  EXPECT_TRUE(result.problems.empty());
}

TEST(ParseJson, RemembersLinesForEveryLineEnd) {
  for (const char* end : {"\n", "\r\n", "\r"}) {
    const std::string e = end;
    const JsonResult result = parse_json("{" + e + "\"a\": 1," + e + "\"b\": [" + e + "2" + e +
                                         "]," + e + "\"c\": \"x\"}");
    ASSERT_TRUE(result.complete);
    EXPECT_EQ(result.root.find("a")->line, 2);
    EXPECT_EQ(result.root.find("a")->value.line, 2);
    EXPECT_EQ(result.root.find("b")->line, 3);
    EXPECT_EQ(result.root.find("b")->value.items[0].line, 4);
    EXPECT_EQ(result.root.find("c")->value.line, 6);
  }
}

TEST(ParseJson, NumberBeforeLineEndStandsOnItsOwnLine) {
  const JsonResult result = parse_json("{\"a\":\n1\n,\"b\":2\n}");
  ASSERT_TRUE(result.complete);
  EXPECT_EQ(result.root.find("a")->value.line, 2);
  EXPECT_EQ(result.root.find("b")->value.line, 3);
}

TEST(ParseJson, AllowsComments) {
  const JsonResult result = parse_json("// a\n{ /* b\n */ \"a\": 1 // c\n}\n// d");
  ASSERT_TRUE(result.complete);
  EXPECT_EQ(result.root.find("a")->line, 3);
}

TEST(ParseJson, FindsEveryDuplicateWithItsPath) {
  const JsonResult result =
      parse_json("{\"m\": {\"x\": 1,\n\"x\": 2}, \"g\": [{}, {\"y\": 1,\n\"y\": 2}],\n\"m\": 3}");
  EXPECT_TRUE(result.complete);
  ASSERT_EQ(result.problems.size(), 3U);
  EXPECT_EQ(result.problems[0].key_path, "m.x");
  EXPECT_EQ(result.problems[0].line, 2);
  EXPECT_THAT(result.problems[0].text, HasSubstr("first time on line 1"));
  EXPECT_EQ(result.problems[1].key_path, "g[1].y");
  EXPECT_EQ(result.problems[2].key_path, "m");
  EXPECT_EQ(result.root.find("m")->value.kind, JsonKind::kObject);
}

TEST(ParseJson, KeepsIntegersBeyond64BitsApart) {
  const JsonResult result =
      parse_json("[9223372036854775807, 9223372036854775808, -9223372036854775809, 1e3]");
  ASSERT_TRUE(result.complete);
  EXPECT_FALSE(result.root.items[0].too_large);
  EXPECT_EQ(result.root.items[0].integer, INT64_MAX);
  EXPECT_TRUE(result.root.items[1].too_large);
  EXPECT_TRUE(result.root.items[2].too_large);
  EXPECT_EQ(result.root.items[3].kind, JsonKind::kNumber);
}

}  // namespace
}  // namespace trainctl
