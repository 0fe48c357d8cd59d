#include "doctor/in_child.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <stdexcept>

namespace trainctl::doctor {
namespace {

using namespace std::chrono_literals;

TEST(InChildren, AnswersComeBackInOrder) {
  const std::string large(1 << 20, 'x');
  const auto answers = in_children({[&] { return large; }, [] { return std::string(); }}, 10s);
  EXPECT_EQ(answers[0].text, large);
  EXPECT_EQ(answers[1].text, "");
  EXPECT_EQ(answers[0].failed + answers[1].failed, "");
}

TEST(InChildren, OneThatCrashesHangsOrThrowsCostsOnlyItsOwnAnswer) {
  const auto answers =
      in_children({[]() -> std::string {
                     ::raise(SIGSEGV);
                     return "";
                   },
                   []() -> std::string {
                     ::pause();
                     return "";
                   },
                   []() -> std::string { throw std::runtime_error("no such"); },
                   []() -> std::string { ::_exit(7); }, [] { return std::string("well"); }},
                  300ms);
  EXPECT_EQ(answers[0].failed, "ended by SIGSEGV");
  EXPECT_EQ(answers[1].failed, "no answer within 0.3 s");
  EXPECT_EQ(answers[2].failed, "no such");
  EXPECT_EQ(answers[3].failed, "ended with exit code 7");
  EXPECT_EQ(answers[4].text, "well");
}

}  // namespace
}  // namespace trainctl::doctor
