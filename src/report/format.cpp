#include "trainctl/report/format.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "report/columns.h"
#include "trainctl/base/strings.h"
#include "trainctl/report/header.h"
#include "trainctl/text/utf8.h"

namespace trainctl {
namespace {

std::string print_number(const char* format, double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value > 0 ? "inf" : "-inf";
  }
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

std::string loss_text(double loss) {
  return print_number(std::abs(loss) >= 1e5 ? "%.4g" : "%.4f", loss);
}
std::string rate_text(double rate) { return print_number("%.2e", rate); }
std::string norm_text(double norm) {
  return print_number(norm < 1e-3 || norm >= 1e5 ? "%.2e" : "%.3g", norm);
}
std::string speed_text(double tokens_per_second) {
  return (std::isfinite(tokens_per_second) ? human_count(tokens_per_second) : "?") + " tok/s";
}

std::string steps_text(int64_t step, int64_t total) {
  std::string number = std::to_string(step);
  if (total <= 0) {
    return number;
  }
  const std::string of = std::to_string(total);
  return pad_left(number, of.size()) + "/" + of;
}

std::string cell(size_t eighths) {
  static constexpr const char* kCells[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
  return kCells[std::min<size_t>(eighths, 8)];
}

std::string bar(double fraction, size_t columns, bool unicode) {
  const auto eighths =
      static_cast<size_t>(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(columns) * 8 + 1e-9);
  std::string out;
  for (size_t column = 0; column < columns; ++column) {
    const size_t filled = eighths > column * 8 ? std::min<size_t>(eighths - column * 8, 8) : 0;
    if (unicode) {
      out += cell(filled);
    } else {
      out += filled == 8 ? '#' : '.';
    }
  }
  return out;
}

struct BarField {
  std::string text;
  int rank;  // the highest goes first when the line is too narrow
};

std::vector<BarField> bar_fields(const StepRecord& record) {
  std::vector<BarField> fields = {{"loss " + loss_text(record.loss), 0},
                                  {"lr " + rate_text(record.learning_rate), 4},
                                  {"norm " + norm_text(record.grad_norm), 5},
                                  {speed_text(record.tokens_per_second), 2}};
  if (record.memory_bytes > 0) {
    fields.push_back({human_bytes(record.memory_bytes), 6});
  }
  if (record.loss_scale) {
    fields.push_back({"scale " + print_number("%g", *record.loss_scale), 7});
  }
  if (record.eta_seconds >= 0) {
    fields.push_back({"ETA " + human_duration(record.eta_seconds), 1});
  }
  if (record.skipped) {
    fields.push_back({"SKIPPED", 3});
  }
  return fields;
}

std::string cut_to_columns(const std::string& text, size_t columns) {
  size_t end = 0;
  for (size_t seen = 0; end < text.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xc0) != 0x80;
    if (begins && seen++ == columns) {
      break;
    }
  }
  return text.substr(0, end);
}

}  // namespace

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') {
      continue;
    }
    std::string lower(value);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return lower.find("utf-8") != std::string::npos || lower.find("utf8") != std::string::npos;
  }
  return false;
}

std::string format_step_line(const StepRecord& record) {
  std::vector<std::string> fields = {
      "step " + steps_text(record.step, record.total_steps), "loss " + loss_text(record.loss),
      "lr " + rate_text(record.learning_rate), "grad norm " + norm_text(record.grad_norm),
      speed_text(record.tokens_per_second)};
  if (record.memory_bytes > 0) {
    fields.push_back(human_bytes(record.memory_bytes));
  }
  if (record.loss_scale) {
    fields.push_back("scale " + print_number("%g", *record.loss_scale));
  }
  if (record.eta_seconds >= 0) {
    fields.push_back("ETA " + human_duration(record.eta_seconds));
  }
  if (record.skipped) {
    fields.emplace_back("skipped: gradients not finite");
  }
  constexpr double kWorthSaying = 1.5;
  if (record.slowest_rank && record.slowest_rank_ratio >= kWorthSaying) {
    fields.push_back("rank " + std::to_string(*record.slowest_rank) + " takes " +
                     print_number("%.1f", record.slowest_rank_ratio) + " × the mean");
  }
  return join(fields, " | ");
}

std::string format_progress_bar(const StepRecord& record, int width, bool unicode) {
  const auto columns = static_cast<size_t>(std::max(width, 1));
  std::string front;
  double fraction = 0;
  if (record.total_steps > 0) {
    fraction = static_cast<double>(record.step) / static_cast<double>(record.total_steps);
    front = print_number("%3.0f%%", std::floor(std::clamp(fraction, 0.0, 1.0) * 100)) + " ";
  }
  const std::string steps =
      (record.total_steps > 0 ? "" : "step ") + steps_text(record.step, record.total_steps);
  std::vector<BarField> fields = bar_fields(record);
  const auto line_with = [&](const std::string& middle) {
    std::string line = front + middle + steps;
    for (const BarField& field : fields) {
      line += "  " + field.text;
    }
    return line;
  };
  while (!fields.empty() && display_columns(line_with("")) > columns) {
    fields.erase(std::max_element(fields.begin(), fields.end(),
                                  [](const auto& a, const auto& b) { return a.rank < b.rank; }));
  }
  const size_t used = display_columns(line_with(""));
  constexpr size_t kFrame = 3, kShortest = 4, kLongest = 30;
  if (record.total_steps > 0 && used + kFrame + kShortest <= columns) {
    const size_t length = std::min(columns - used - kFrame, kLongest);
    return line_with("|" + bar(fraction, length, unicode) + "| ");
  }
  return cut_to_columns(line_with(""), columns);
}

std::string format_validation_line(const ValidationRecord& record) {
  std::string line = "step " + std::to_string(record.step) + " | validation loss " +
                     loss_text(record.validation_loss);
  const double perplexity = std::exp(record.validation_loss);
  if (perplexity < 1e6) {
    line += " | perplexity " + print_number("%.4g", perplexity);
  }
  return line + " | " + human_count(static_cast<double>(record.tokens)) + " tokens in " +
         human_duration(record.seconds);
}

std::string format_sample(const SampleRecord& record) {
  const std::string text = show_controls(replace_invalid_utf8(record.prompt + record.continuation));
  std::string out = "step " + std::to_string(record.step) + " | sample\n";
  size_t begin = 0;
  for (;;) {
    const size_t end = text.find('\n', begin);
    out += "  | " + text.substr(begin, end - begin) + "\n";
    if (end == std::string::npos) {
      return out;
    }
    begin = end + 1;
  }
}

std::string format_summary(const SummaryRecord& record) {
  HeaderLines lines = {
      {"", record.outcome},
      {"steps", std::to_string(record.steps)},
      {"tokens", human_count(static_cast<double>(record.tokens)) + " (" +
                     std::to_string(record.tokens) + ")"},
      {"time", human_duration(record.seconds) + ", " + speed_text(record.tokens_per_second)}};
  const auto add_loss = [&](const char* label, const std::optional<double>& loss) {
    if (loss) {
      lines.emplace_back(label, loss_text(*loss));
    }
  };
  add_loss("loss", record.final_loss);
  add_loss("validation loss", record.final_validation_loss);
  add_loss("best validation loss", record.best_validation_loss);
  if (record.memory_peak_bytes > 0) {
    lines.emplace_back("peak memory", human_bytes(record.memory_peak_bytes));
  }
  if (!record.weights_path.empty()) {
    lines.emplace_back("weights", record.weights_path);
  }
  lines.emplace_back("run", record.run_dir);
  return format_header(lines);
}

}  // namespace trainctl
