#include "trainctl/report/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "report/columns.h"

namespace trainctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

LossHistory falling(int64_t steps) {
  LossHistory history;
  for (int64_t step = 1; step <= steps; ++step) {
    history.training.push_back(
        {step, 1 + 4 * std::exp(-5.0 * static_cast<double>(step) / static_cast<double>(steps))});
  }
  return history;
}

TEST(LossCurve, DrawsAStraightFallInAscii) {
  LossHistory history;
  for (int64_t step = 0; step <= 40; ++step) {
    history.training.push_back({step, static_cast<double>(40 - step)});
  }
  EXPECT_EQ(draw_loss_curve(history, {.width = 21, .height = 4, .unicode = false}),
            "      39 +**\n"
            "         |  ***\n"
            "         |     ***\n"
            "       1 +        **\n"
            "         +----------\n"
            "          0   20  40\n"
            "          step;  ** training loss\n");
}

TEST(LossCurve, DrawsBrailleWithTheHighLossAtTheTopLeft) {
  const auto lines = lines_of(draw_loss_curve(falling(1000), {.width = 60, .height = 8}));
  ASSERT_EQ(lines.size(), 11u);
  EXPECT_THAT(lines[0], HasSubstr("┤⠑⡄"));  // steep at first
  EXPECT_THAT(lines[7], HasSubstr("┤ "));
  EXPECT_THAT(lines[7], HasSubstr("⣀"));  // flat at the end, at the bottom
  EXPECT_THAT(lines[9], HasSubstr("1k"));
  EXPECT_THAT(lines[10], Not(HasSubstr("validation")));
}

TEST(LossCurve, MarksValidationOverTraining) {
  LossHistory history = falling(100);
  history.validation = {{50, 3.0}, {100, 5.5}};
  const std::string unicode = draw_loss_curve(history, {});
  EXPECT_THAT(unicode, HasSubstr("● validation loss"));
  EXPECT_THAT(lines_of(unicode)[0], HasSubstr("●"));  // the highest of all, at the last step
  const std::string ascii = draw_loss_curve(history, {.unicode = false});
  EXPECT_THAT(lines_of(ascii)[0], HasSubstr("5.5 +"));
  EXPECT_THAT(lines_of(ascii)[0], ::testing::EndsWith("o"));
  EXPECT_TRUE(std::all_of(ascii.begin(), ascii.end(),
                          [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
}

TEST(LossCurve, NeverExceedsTheWidth) {
  LossHistory history = falling(12345678 % 5000);
  history.validation = {{1, 9.0}, {4000, 1e9}};
  for (int width = 21; width < 140; width += 7) {
    for (const std::string& line : lines_of(draw_loss_curve(history, {.width = width}))) {
      if (line.find("step;") == std::string::npos) {
        EXPECT_LE(display_columns(line), static_cast<size_t>(width)) << line;
      }
    }
  }
}

TEST(LossCurve, PassesOverWhatIsNotFinite) {
  LossHistory history = falling(100);
  const std::string clean = draw_loss_curve(history, {});
  history.training.push_back({100, std::numeric_limits<double>::quiet_NaN()});
  history.training.push_back({100, std::numeric_limits<double>::infinity()});
  EXPECT_EQ(draw_loss_curve(history, {}), clean);
}

TEST(LossCurve, NeedsTwoPoints) {
  EXPECT_EQ(draw_loss_curve({}, {}), "");
  EXPECT_EQ(draw_loss_curve({{{1, 2.0}}, {}}, {}), "");
  EXPECT_NE(draw_loss_curve({{{1, 2.0}, {2, 2.0}}, {}}, {}), "");  // equal losses
  EXPECT_EQ(draw_loss_curve({{{1, 2.0}}, {{1, 3.0}}}, {}), "");
  EXPECT_NE(draw_loss_curve(falling(100), {.width = 0, .height = 0}), "");
}

TEST(LossHistory, ReadsMetricsLinesAndPassesOverOthers) {
  const fs::path path = fs::temp_directory_path() / ("history-" + std::to_string(::getpid()));
  std::ofstream(path) << "{\"step\":1,\"loss\":4.5}\n{\"step\":2,\"loss\":null}\nnot json\n"
                         "{\"step\":2,\"validation_loss\":4.0}\n{\"step\":\"x\",\"loss\":1}\n[1]\n"
                         "{\"step\":3,\"loss\":3.5}";
  const LossHistory history = read_loss_history(path);
  fs::remove(path);
  ASSERT_EQ(history.training.size(), 2u);
  EXPECT_EQ(history.training[1].step, 3);
  EXPECT_EQ(history.training[1].value, 3.5);
  ASSERT_EQ(history.validation.size(), 1u);
  EXPECT_EQ(history.validation[0].value, 4.0);
  EXPECT_THROW(read_loss_history(path), UserError);
}

}  // namespace
}  // namespace trainctl
