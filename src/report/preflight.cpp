#include "trainctl/report/preflight.h"

#include <algorithm>
#include <cstdio>

namespace trainctl {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kSlow = 0.8;

struct Entry {
  const PreflightRank* rank;
  const PreflightFigure* figure;
};

// The step's figures on all ranks that have it, in the order of ranks.
std::vector<Entry> figures_of(const std::vector<PreflightRank>& ranks, const std::string& step) {
  std::vector<Entry> entries;
  for (const PreflightRank& rank : ranks) {
    for (const PreflightFigure& figure : rank.figures) {
      if (figure.step == step) entries.push_back({&rank, &figure});
    }
  }
  return entries;
}

std::vector<double> values_of(const std::vector<Entry>& entries) {
  std::vector<double> values;
  for (const Entry& entry : entries) {
    if (entry.figure->value) values.push_back(*entry.figure->value);
  }
  std::sort(values.begin(), values.end());
  return values;
}

double median(const std::vector<double>& sorted) {
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

std::vector<std::string> steps_of(const std::vector<PreflightRank>& ranks) {
  std::vector<std::string> steps;
  for (const PreflightRank& rank : ranks) {
    for (const PreflightFigure& figure : rank.figures) {
      if (std::find(steps.begin(), steps.end(), figure.step) == steps.end())
        steps.push_back(figure.step);
    }
  }
  return steps;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 10 ? "%.2f" : value < 1000 ? "%.1f" : "%.0f", value);
  return text;
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

std::string rank_name(const PreflightRank& rank) {
  return "rank " + std::to_string(rank.rank) + " (" + rank.host + ")";
}

std::string step_line(const std::vector<Entry>& entries, size_t width) {
  const PreflightFigure& first = *entries[0].figure;
  std::string text = "  " + padded(first.step, width + 2);
  const std::vector<double> values = values_of(entries);
  if (!values.empty()) {
    text += padded(number(median(values)) + " " + first.unit, 18);
    if (values.size() > 1)
      text += "median of " + std::to_string(values.size()) + " ranks, " + number(values.front()) +
              " to " + number(values.back());
    else
      text += first.note;
    while (text.back() == ' ') text.pop_back();
    text += "\n";
  }
  std::string told;
  for (const Entry& entry : entries) {
    if (entry.figure->value || entry.figure->note == told) continue;
    told = entry.figure->note;  // once where all ranks say the same
    const std::string who =
        entries.size() > 1 && !values.empty() ? rank_name(*entry.rank) + ": " : "";
    text += (values.empty() ? "" : "    ") + who +
            (entry.figure->failed ? "FAILED: " : "not here: ") + told + "\n";
    if (values.empty()) break;
  }
  return text;
}

}  // namespace

Json to_json(const PreflightRank& rank) {
  Json out = {{"rank", rank.rank}, {"host", rank.host}, {"device", rank.device}};
  out["figures"] = Json::array();
  for (const PreflightFigure& figure : rank.figures) {
    Json line = {{"step", figure.step}, {"unit", figure.unit}};
    line["value"] = figure.value ? Json(*figure.value) : Json(nullptr);
    line["more_is_better"] = figure.more_is_better;
    if (figure.failed) line["failed"] = true;
    if (!figure.note.empty()) line["note"] = figure.note;
    out["figures"].push_back(std::move(line));
  }
  return out;
}

PreflightRank preflight_rank_from_json(const Json& json) {
  PreflightRank rank{json.at("rank"), json.at("host"), json.at("device"), {}};
  for (const Json& line : json.at("figures")) {
    PreflightFigure figure;
    figure.step = line.at("step");
    figure.unit = line.at("unit");
    figure.more_is_better = line.at("more_is_better");
    if (!line.at("value").is_null()) figure.value = line.at("value").get<double>();
    figure.note = line.value("note", "");
    figure.failed = line.value("failed", false);
    rank.figures.push_back(std::move(figure));
  }
  return rank;
}

std::vector<SlowRank> slow_ranks(const std::vector<PreflightRank>& ranks) {
  std::vector<SlowRank> slow;
  for (const std::string& step : steps_of(ranks)) {
    const std::vector<Entry> entries = figures_of(ranks, step);
    const std::vector<double> values = values_of(entries);
    if (values.size() < 2) continue;
    const double middle = median(values);
    for (const Entry& entry : entries) {
      const PreflightFigure& figure = *entry.figure;
      if (!figure.value || *figure.value <= 0 || middle <= 0) continue;
      const double speed = figure.more_is_better ? *figure.value / middle : middle / *figure.value;
      if (speed < kSlow)
        slow.push_back(
            {entry.rank->rank, entry.rank->host, step, figure.unit, *figure.value, middle, speed});
    }
  }
  return slow;
}

bool any_failed(const std::vector<PreflightRank>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [](const PreflightRank& rank) {
    return std::any_of(rank.figures.begin(), rank.figures.end(),
                       [](const PreflightFigure& figure) { return figure.failed; });
  });
}

std::string format_preflight(const std::vector<PreflightRank>& ranks) {
  const std::vector<std::string> steps = steps_of(ranks);
  size_t width = 0;
  for (const std::string& step : steps) width = std::max(width, step.size());
  std::string text =
      "preflight on " + ranks.at(0).device +
      (ranks.size() > 1 ? ", " + std::to_string(ranks.size()) + " ranks at once" : "") + "\n";
  for (const std::string& step : steps) text += step_line(figures_of(ranks, step), width);
  const std::vector<SlowRank> slow = slow_ranks(ranks);
  for (const SlowRank& one : slow) {
    char part[16];
    std::snprintf(part, sizeof part, "%.0f %%", one.speed * 100);
    text += "slow: rank " + std::to_string(one.rank) + " (" + one.host + ") in " + one.step + ": " +
            number(one.value) + " " + one.unit + ", the median is " + number(one.median) + " (" +
            part + " of its speed)\n";
  }
  if (!slow.empty())
    text +=
        "cure: look there for another process on the same processors or GPU, for throttling (heat, "
        "power limit), and for another processor or GPU model\n";
  text += any_failed(ranks) ? "This machine is not fit: a step failed.\n"
          : slow.empty()    ? "All steps work.\n"
                         : "All steps work; every step of training waits for the slowest rank.\n";
  return text;
}

Json preflight_to_json(const std::vector<PreflightRank>& ranks) {
  Json out = {{"fit", !any_failed(ranks)}};
  out["ranks"] = Json::array();
  for (const PreflightRank& rank : ranks) out["ranks"].push_back(to_json(rank));
  out["slow"] = Json::array();
  for (const SlowRank& one : slow_ranks(ranks)) {
    out["slow"].push_back({{"rank", one.rank},
                           {"host", one.host},
                           {"step", one.step},
                           {"unit", one.unit},
                           {"value", one.value},
                           {"median", one.median},
                           {"speed", one.speed}});
  }
  return out;
}

}  // namespace trainctl
