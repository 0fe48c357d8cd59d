// A diagnosis as text for a person, and as JSON for a script.
#include <algorithm>
#include <ctime>
#include <set>

#include "doctor/flatten.h"
#include "trainctl/base/explanations.h"
#include "trainctl/base/process.h"
#include "trainctl/base/version.h"
#include "trainctl/doctor/doctor.h"

namespace trainctl {
namespace {

struct VerdictWords {
  Verdict verdict;
  const char* mark;  // in the text
  const char* name;  // in JSON
  const char* colour;
};
constexpr VerdictWords kVerdicts[] = {{Verdict::kOk, "ok", "ok", "32"},
                                      {Verdict::kNote, "note", "note", "36"},
                                      {Verdict::kWarning, "warn", "warning", "33"},
                                      {Verdict::kUnfit, "FAIL", "unfit", "31"}};

const VerdictWords& words_of(Verdict verdict) { return kVerdicts[static_cast<size_t>(verdict)]; }

std::string in_colour(const std::string& text, const char* colour, const DiagnosisStyle& style) {
  return style.colour ? std::string("\033[") + colour + "m" + text + "\033[0m" : text;
}

// Columns that UTF-8 text takes, near enough: its code points.
size_t columns_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

// Broken between words; lines after the first begin with `indent` blanks, where the first is too.
std::string wrapped(const std::string& text, size_t indent, size_t width) {
  std::string out;
  size_t column = indent;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    const size_t columns = columns_of(word);
    if (column > indent && column + 1 + columns > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += " ";
      ++column;
    }
    out += word;
    column += columns;
    at = end + 1;
  }
  return out;
}

constexpr size_t kIndent = 7;  // below the mark

// What one wants to read even where all is well.
constexpr const char* kHeadlines[] = {"driver.loaded",  "driver.version",     "libraries.libtorch",
                                      "libraries.cuda", "gpus.devices",       "gpus.memory",
                                      "gpus.links",     "limits.memory",      "limits.processors",
                                      "limits.shm",     "network.interfaces", "network.nccl",
                                      "storage.space",  "storage.kind",       "context.program",
                                      "context.system", "context.processor"};

class Text {
 public:
  Text(const Diagnosis& diagnosis, const DiagnosisStyle& style)
      : diagnosis_(diagnosis), style_(style) {
    for (const ProbeResult& probe : diagnosis.probes) {
      title_width_ = std::max(title_width_, columns_of(probe.title));
    }
  }

  std::string all() {
    std::string text, group;
    for (const ProbeResult& probe : diagnosis_.probes) {
      if (!shown(probe)) continue;
      if (probe.group != group) {
        if (!group.empty()) text += evidence_of(group) + "\n";
        group = probe.group;
        text += in_colour(group, "1", style_) + "\n";
      }
      text += lines_of(probe);
    }
    return text + evidence_of(group) + "\n" + rest_line() + verdict_line();
  }

 private:
  bool shown(const ProbeResult& probe) const {
    if (style_.verbose || probe.finding.verdict != Verdict::kOk) return true;
    return !probe.finding.found.empty() &&
           std::any_of(std::begin(kHeadlines), std::end(kHeadlines),
                       [&](const char* id) { return probe.id == id; });
  }

  std::string rest_line() const {
    const auto hidden = std::count_if(diagnosis_.probes.begin(), diagnosis_.probes.end(),
                                      [this](const ProbeResult& probe) { return !shown(probe); });
    if (hidden == 0) return "";
    return std::to_string(hidden) + " more probes found nothing wrong (--verbose shows them).\n";
  }

  std::string labelled(const char* label, const std::string& text) const {
    if (text.empty()) return "";
    constexpr size_t kLabel = 6;
    std::string line = std::string(kIndent, ' ') + label;
    line.resize(kIndent + kLabel, ' ');
    return line + wrapped(text, kIndent + kLabel, static_cast<size_t>(style_.width)) + "\n";
  }

  std::string lines_of(const ProbeResult& probe) {
    const Finding& finding = probe.finding;
    const VerdictWords& words = words_of(finding.verdict);
    std::string mark = words.mark;
    mark.resize(kIndent - 2, ' ');
    const std::string title =
        probe.title + std::string(title_width_ + 2 - columns_of(probe.title), ' ');
    std::string found = finding.found.empty() ? "-" : finding.found;
    if (!style_.verbose && finding.verdict == Verdict::kOk) found = shortened(found);
    std::string text =
        "  " + in_colour(mark, words.colour, style_) + title +
        wrapped(found, kIndent + title_width_ + 2, static_cast<size_t>(style_.width)) + "\n";
    // Two probes may come upon the same thing.
    if (!finding.cause.empty() && !told_.insert(finding.cause + finding.cure).second) {
      return text + labelled("why:", "as above");
    }
    text += labelled("why:", finding.cause) + labelled("cure:", finding.cure);
    if (style_.verbose && !finding.explanation.empty()) {
      text += labelled("see:", known_by(finding.explanation));
    }
    return text;
  }

  std::string shortened(const std::string& text) const {
    const size_t room =
        static_cast<size_t>(style_.width) -
        std::min<size_t>(static_cast<size_t>(style_.width) / 2, kIndent + title_width_ + 2);
    if (columns_of(text) <= room) return text;
    size_t bytes = 0;
    for (size_t columns = 0; bytes < text.size(); ++bytes) {
      if ((static_cast<unsigned char>(text[bytes]) & 0xC0U) == 0x80U) continue;
      if (++columns >= room) break;
    }
    return text.substr(0, bytes) + "…";
  }

  static std::string known_by(const std::string& id) {
    for (const ExplanationGroup& group : explanation_groups()) {
      for (const ExplanationRow& row : group.rows) {
        if (id == row.id) return row.known_by;
      }
    }
    return "";
  }

  std::string evidence_of(const std::string& group) const {
    if (!style_.verbose || !diagnosis_.evidence.contains(group)) return "";
    std::string text;
    for (const auto& [name, value] : doctor::flatten(diagnosis_.evidence.at(group))) {
      if (!value.empty()) text += std::string(kIndent, ' ') + name + ": " + value + "\n";
    }
    return text;
  }

  std::string verdict_line() const {
    const auto count = [&](Verdict verdict) {
      return std::count_if(
          diagnosis_.probes.begin(), diagnosis_.probes.end(),
          [&](const ProbeResult& probe) { return probe.finding.verdict == verdict; });
    };
    const auto plural = [](auto number, const std::string& word) {
      return std::to_string(number) + " " + word + (number == 1 ? "" : "s");
    };
    const auto warnings = count(Verdict::kWarning);
    const std::string also = warnings > 0 ? ", " + plural(warnings, "warning") : "";
    if (diagnosis_.fit()) {
      return in_colour("This machine is fit" + also + ".", "32", style_) + "\n";
    }
    return in_colour(
               "This machine is not fit: " + plural(count(Verdict::kUnfit), "failure") + also + ".",
               "31", style_) +
           "\n";
  }

  const Diagnosis& diagnosis_;
  DiagnosisStyle style_;
  size_t title_width_ = 0;
  std::set<std::string> told_;
};

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

std::string format_diagnosis(const Diagnosis& diagnosis, const DiagnosisStyle& style) {
  return Text(diagnosis, style).all();
}

nlohmann::ordered_json diagnosis_to_json(const Diagnosis& diagnosis) {
  nlohmann::ordered_json out;
  out["trainctl"] = kVersion;
  out["build"] = kBuildId;
  out["host"] = ProcessIdentity::self().host;
  out["time"] = utc_now();
  out["fit"] = diagnosis.fit();
  out["probes"] = nlohmann::ordered_json::array();
  for (const ProbeResult& probe : diagnosis.probes) {
    const Finding& finding = probe.finding;
    nlohmann::ordered_json line = {{"id", probe.id},
                                   {"group", probe.group},
                                   {"title", probe.title},
                                   {"verdict", words_of(finding.verdict).name},
                                   {"found", finding.found}};
    if (!finding.explanation.empty()) line["explanation"] = finding.explanation;
    if (!finding.cause.empty()) line["cause"] = finding.cause;
    if (!finding.cure.empty()) line["cure"] = finding.cure;
    out["probes"].push_back(std::move(line));
  }
  out["evidence"] = diagnosis.evidence;
  return out;
}

}  // namespace trainctl
