#include "trainctl/launch/agreed_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainctl {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;

TEST(AgreedConfig, HasAValuePerKey) {
  EXPECT_THAT(
      agreed_config(R"({"training": {"max_steps": 20, "x": {}}, "data": {"files": ["a", "b"]}})"),
      AllOf(SizeIs(3), Contains(Pair("config key training.max_steps", "20")),
            Contains(Pair("config key data.files", R"(["a","b"])")),
            Contains(Pair("config key training.x", "{}"))));
}

TEST(AgreedConfig, LongValuesAreCutButStillCompared) {
  const auto with = [](char last) {
    return agreed_config(R"({"a": ")" + std::string(100000, 'x') + last + "\"}");
  };
  EXPECT_LT(with('1')[0].second.size(), 200u);
  EXPECT_NE(with('1'), with('2'));
  EXPECT_EQ(with('1'), with('1'));
}

TEST(AgreedConfig, ManyKeysBecomeOneChecksum) {
  std::string json = "{\"a0\": 0";
  for (int i = 1; i < 3000; ++i) json += ", \"a" + std::to_string(i) + "\": 0";
  EXPECT_THAT(agreed_config(json + "}"), SizeIs(1));
}

TEST(DifferenceText, NamesKeysBothValuesAndBothHosts) {
  EXPECT_EQ(difference_text({{"a", "1"}, {"b", "2"}}, "h1", {{"b", "2"}, {"a", "1"}}, "h2"), "");
  EXPECT_EQ(
      difference_text({{"a", "1"}, {"b", "2"}}, "h1", {{"a", "1"}, {"b", "3"}, {"c", "4"}}, "h2"),
      "b: it is 2 on h1 and 3 on h2; c: it is (not given) on h1 and 4 on h2");
}

TEST(DifferenceText, ManyDifferencesAreCounted) {
  AgreedValues here, there;
  for (int i = 0; i < 12; ++i) {
    here.emplace_back("k" + std::to_string(i), "1");
    there.emplace_back("k" + std::to_string(i), "2");
  }
  EXPECT_THAT(difference_text(here, "h1", there, "h2"),
              AllOf(HasSubstr("k4: it is"), Not(HasSubstr("k5")), HasSubstr("and on 7 more")));
}

}  // namespace
}  // namespace trainctl
