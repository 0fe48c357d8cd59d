#include "trainctl/report/curve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "report/columns.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

// Marks within one character: braille has 2 × 4 of them, plain ASCII one.
struct CellShape {
  int columns, rows;
};
constexpr CellShape kBraille{2, 4}, kPlain{1, 1};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  double position(double value) const {  // 0 at low, 1 at high
    return high > low ? (value - low) / (high - low) : 0.5;
  }
};

std::string number_text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, std::abs(value) >= 1e4 ? "%.1e" : "%.3g", value);
  return buffer;
}

// Width × height characters, drawn into by marks; row 0 is on top.
class Canvas {
 public:
  Canvas(int width, int height, bool unicode)
      : shape_(unicode ? kBraille : kPlain),
        width_(width),
        height_(height),
        unicode_(unicode),
        dots_(static_cast<size_t>(width * height), 0),
        points_(static_cast<size_t>(width * height), false) {}

  int mark_columns() const { return width_ * shape_.columns; }
  int mark_rows() const { return height_ * shape_.rows; }

  void mark(int x, int y) {
    // Bits of the braille block at U+2800, by row and column.
    static constexpr std::array<std::array<unsigned, 2>, 4> kBits = {
        {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
    dots_[cell(x, y)] |=
        kBits[static_cast<size_t>(y % shape_.rows)][static_cast<size_t>(x % shape_.columns)];
  }

  void point(int x, int y) { points_[cell(x, y)] = true; }

  std::string row(int y) const {
    std::string out;
    for (int x = 0; x < width_; ++x) {
      const size_t i = index(y, x);
      if (points_[i]) {
        out += unicode_ ? "●" : "o";
      } else if (dots_[i] == 0) {
        out += ' ';
      } else if (unicode_) {
        out += {'\xe2', static_cast<char>(0xa0 | dots_[i] >> 6),
                static_cast<char>(0x80 | (dots_[i] & 0x3f))};
      } else {
        out += '*';
      }
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
  }

 private:
  size_t index(int row, int column) const {
    return static_cast<size_t>(row) * static_cast<size_t>(width_) + static_cast<size_t>(column);
  }
  size_t cell(int x, int y) const { return index(y / shape_.rows, x / shape_.columns); }

  CellShape shape_;
  int width_, height_;
  bool unicode_;
  std::vector<unsigned> dots_;
  std::vector<bool> points_;
};

int scaled(double position, int marks) {
  return std::clamp(static_cast<int>(std::lround(position * (marks - 1))), 0, marks - 1);
}

// The mean loss of each column of marks; NaN where no step falls.
std::vector<double> column_means(const std::vector<CurvePoint>& points, const Range& steps,
                                 int columns) {
  std::vector<double> sum(static_cast<size_t>(columns), 0);
  std::vector<int> count(static_cast<size_t>(columns), 0);
  for (const CurvePoint& point : points) {
    const auto x =
        static_cast<size_t>(scaled(steps.position(static_cast<double>(point.step)), columns));
    sum[x] += point.value;
    ++count[x];
  }
  for (size_t x = 0; x < sum.size(); ++x) {
    sum[x] = count[x] > 0 ? sum[x] / count[x] : std::numeric_limits<double>::quiet_NaN();
  }
  return sum;
}

// Straight lines from each column that has a value to the next one that has.
void draw_line(Canvas& canvas, const std::vector<double>& means, const Range& losses) {
  int last_x = -1, last_y = 0;
  for (int x = 0; x < static_cast<int>(means.size()); ++x) {
    const double mean = means[static_cast<size_t>(x)];
    if (std::isnan(mean)) {
      continue;
    }
    const int y = canvas.mark_rows() - 1 - scaled(losses.position(mean), canvas.mark_rows());
    const int steps = last_x < 0 ? 0 : std::max(x - last_x, std::abs(y - last_y));
    for (int i = 0; i < steps; ++i) {
      const double t = static_cast<double>(i) / steps;
      canvas.mark(last_x + static_cast<int>(std::lround(t * (x - last_x))),
                  last_y + static_cast<int>(std::lround(t * (y - last_y))));
    }
    canvas.mark(x, y);
    last_x = x;
    last_y = y;
  }
}

std::vector<CurvePoint> finite(const std::vector<CurvePoint>& points) {
  std::vector<CurvePoint> out;
  std::copy_if(points.begin(), points.end(), std::back_inserter(out),
               [](const CurvePoint& point) { return std::isfinite(point.value); });
  return out;
}

// First, middle and last step, under the columns where they lie; the middle one where it has room.
std::string step_axis(const Range& steps, size_t margin, int width) {
  const auto columns = static_cast<size_t>(width);
  const std::string first = human_count(steps.low), last = human_count(steps.high),
                    middle = human_count(std::round((steps.low + steps.high) / 2));
  std::string line(margin, ' ');
  line += first;
  const size_t end = margin + columns;
  const size_t middle_at = margin + columns / 2 - middle.size() / 2;
  if (middle_at > line.size() + 1 && middle_at + middle.size() + 1 < end - last.size()) {
    line.resize(middle_at, ' ');
    line += middle;
  }
  if (line.size() + 1 + last.size() <= end) {
    line.resize(end - last.size(), ' ');
    line += last;
  }
  return line;
}

}  // namespace

std::string draw_loss_curve(const LossHistory& history, const CurveStyle& style) {
  const std::vector<CurvePoint> training = finite(history.training),
                                validation = finite(history.validation);
  if (training.size() < 2) {  // a curve needs two points
    return "";
  }
  Range steps, losses;
  for (const auto* points : {&training, &validation}) {
    for (const CurvePoint& point : *points) {
      steps.include(static_cast<double>(point.step));
    }
  }
  constexpr size_t kLabel = 8;  // columns of a number before the axis
  const int width = std::max(style.width - static_cast<int>(kLabel) - 3, 10);
  const int height = std::max(style.height, 3);
  Canvas canvas(width, height, style.unicode);

  const std::vector<double> means = column_means(training, steps, canvas.mark_columns());
  for (const double mean : means) {
    if (!std::isnan(mean)) {
      losses.include(mean);
    }
  }
  for (const CurvePoint& point : validation) {
    losses.include(point.value);
  }
  draw_line(canvas, means, losses);
  for (const CurvePoint& point : validation) {
    canvas.point(scaled(steps.position(static_cast<double>(point.step)), canvas.mark_columns()),
                 canvas.mark_rows() - 1 - scaled(losses.position(point.value), canvas.mark_rows()));
  }

  std::string out;
  for (int y = 0; y < height; ++y) {
    // Labels on every third line, and on the last.
    const bool labelled = y == height - 1 || (y % 3 == 0 && y < height - 2);
    const double value = losses.high - (losses.high - losses.low) * y / (height - 1);
    std::string line = pad_left(labelled ? number_text(value) : "", kLabel);
    line += style.unicode ? (labelled ? " ┤" : " │") : (labelled ? " +" : " |");
    out += line + canvas.row(y) + "\n";
  }
  std::string axis = std::string(kLabel, ' ') + (style.unicode ? " └" : " +");
  for (int x = 0; x < width; ++x) {
    axis += style.unicode ? "─" : "-";
  }
  out += axis + "\n" + step_axis(steps, kLabel + 2, width) + "\n";
  std::string legend = std::string(kLabel + 2, ' ') + "step;";
  if (!training.empty()) {
    legend += style.unicode ? "  ⠒⠒ training loss" : "  ** training loss";
  }
  if (!validation.empty()) {
    legend += style.unicode ? "  ● validation loss" : "  o validation loss";
  }
  return out + legend + "\n";
}

}  // namespace trainctl
