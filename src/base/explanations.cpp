#include "trainctl/base/explanations.h"

#include <array>
#include <cctype>
#include <stdexcept>

#include "base/explain_chapters.h"

namespace trainctl {
namespace {

const ExplanationRow& row_of(std::string_view id) {
  for (const ExplanationGroup& group : explanation_groups()) {
    for (const ExplanationRow& row : group.rows) {
      if (id == row.id) return row;
    }
  }
  throw std::logic_error("no explanation is called '" + std::string(id) + "'");
}

// Puts facts into "{name}"s; `missing` stands for one that is not there, or null: a defect.
std::string fill(std::string_view text, const Facts& facts, const char* missing) {
  std::string out;
  while (!text.empty()) {
    const size_t open = text.find('{');
    out += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const size_t close = text.find('}', open);
    const std::string_view name = text.substr(open + 1, close - open - 1);
    const char* value = missing;
    for (const auto& [known, fact] : facts) {
      if (known == name) value = fact.c_str();
    }
    if (value == nullptr) throw std::logic_error("no fact '" + std::string(name) + "'");
    out += value;
    text.remove_prefix(close + 1);
  }
  return out;
}

constexpr const char* kUnknown = "…";

// What stands in brackets around a fact that is not known says nothing.
std::string without_unknown(std::string text) {
  for (size_t at = text.find(kUnknown); at != std::string::npos; at = text.find(kUnknown, at + 1)) {
    const size_t open = text.rfind(" (", at);
    const size_t close = text.find(')', at);
    if (open == std::string::npos || close == std::string::npos) continue;
    if (text.find(')', open) != close) continue;
    text.erase(open, close + 1 - open);
    at = open;
  }
  return text;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Both in lower case. The parts of `pattern` between '*'s appear in `text` in this order.
bool matches(std::string_view text, std::string_view pattern) {
  for (;;) {
    const size_t star = pattern.find('*');
    const std::string_view part = pattern.substr(0, star);
    const size_t at = text.find(part);
    if (at == std::string_view::npos) return false;
    if (star == std::string_view::npos) return true;
    text.remove_prefix(at + part.size());
    pattern.remove_prefix(star + 1);
  }
}

}  // namespace

std::span<const ExplanationGroup> explanation_groups() {
  static const std::array kGroups = {
      ExplanationGroup{"The NVIDIA driver and CUDA", driver_explanations()},
      ExplanationGroup{"Libraries and tools", library_explanations()},
      ExplanationGroup{"GPUs", gpu_explanations()},
      ExplanationGroup{"NCCL, Gloo and the connections between ranks", nccl_explanations()},
      ExplanationGroup{"Memory", memory_explanations()},
      ExplanationGroup{"cuDNN, cuBLAS and kernels on the GPU", cudnn_explanations()},
      ExplanationGroup{"Limits of the system", limits_explanations()},
      ExplanationGroup{"Network and launching", network_explanations()},
      ExplanationGroup{"Files and folders", storage_explanations()},
      ExplanationGroup{"Variables and versions", context_explanations()},
      ExplanationGroup{"The doctor itself", doctor_explanations()},
  };
  return kGroups;
}

Explanation explain(std::string_view id, const Facts& facts) {
  const ExplanationRow& row = row_of(id);
  return {fill(row.cause, facts, nullptr), fill(row.cure, facts, nullptr)};
}

RecognizedError fill_row(const ExplanationRow& row, const Facts& facts) {
  const auto filled = [&](const char* text) {
    return std::string_view(text).find('{') == std::string_view::npos
               ? std::string(text)
               : without_unknown(fill(text, facts, kUnknown));
  };
  return {&row, {filled(row.cause), filled(row.cure)}};
}

std::optional<RecognizedError> recognize_error(std::string_view text, const Facts& facts) {
  const std::string said = lower(text);
  for (const ExplanationGroup& group : explanation_groups()) {
    for (const ExplanationRow& row : group.rows) {
      for (const char* pattern : row.patterns) {
        if (!matches(said, lower(pattern))) continue;
        return fill_row(row, facts);
      }
    }
  }
  return std::nullopt;
}

}  // namespace trainctl
