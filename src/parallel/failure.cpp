#include "parallel/failure.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <typeinfo>

#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

constexpr double kSilence = 3;  // seconds without a heartbeat that count as silence
constexpr size_t kShownRanks = 4;

bool contains_any(const std::string& text, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const char* part) { return text.find(part) != std::string::npos; });
}

std::string clock_text(double seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm utc = {};
  gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%H:%M:%S UTC", &utc);
  return text;
}

std::string ago(double seconds) { return human_duration(std::max(seconds, 0.0)) + " ago"; }

std::string position(const RankState& rank) {
  return (rank.step > 0 ? "in step " + std::to_string(rank.step) + ", " : "in ") + rank.doing;
}

bool is_silent(const RankState& rank, double now) { return now - rank.beat > kSilence; }

std::string describe(const RankState& rank, double now) {
  std::string text = "rank " + std::to_string(rank.rank);
  if (rank.who.empty()) return text + " (nothing is known of it)";
  text += " (" + rank.who + "): ";
  if (is_silent(rank, now)) {
    return text + "no sign of life for " + human_duration(now - rank.beat) + ", last seen " +
           position(rank) + " at " + clock_text(rank.beat);
  }
  return text + "alive, " + position(rank) + " since " + clock_text(rank.since) + " (" +
         ago(now - rank.since) + ")";
}

std::string cure(const std::vector<const RankState*>& missing, double now) {
  const bool all_silent = std::all_of(missing.begin(), missing.end(),
                                      [&](const RankState* rank) { return is_silent(*rank, now); });
  return all_silent ? "its process is stopped or hangs in the kernel, or its host or network is "
                      "gone: look there"
                    : "if what it does may take so long, raise parallel.timeout; else look at its "
                      "stack there (gdb -p)";
}

}  // namespace

FailureKind failure_kind(const std::exception& error) {
  const std::string text = error.what();
  const bool of_connections =
      dynamic_cast<const c10::DistError*>(&error) != nullptr ||
      contains_any(typeid(error).name(), {"gloo"}) ||
      contains_any(text, {"/gloo/", "pair closure", "NCCL", "ProcessGroup", "TCPStore"});
  if (!of_connections) return FailureKind::kOther;
  return contains_any(text, {"Timed out", "timed out", "imeout", "TIMEOUT"})
             ? FailureKind::kTimeout
             : FailureKind::kPeerLost;
}

std::string hang_begin(const RankState& mine, double timeout_seconds) {
  return "training hangs: after " + human_duration(timeout_seconds) + " (parallel.timeout) rank " +
         std::to_string(mine.rank) + " still waits for others " + position(mine) + ". ";
}

std::string hang_report(const std::vector<RankState>& ranks, const RankState& mine, double now,
                        double timeout_seconds) {
  int64_t furthest = mine.joined;
  for (const RankState& rank : ranks) furthest = std::max(furthest, rank.joined);
  std::vector<const RankState*> missing;
  for (const RankState& rank : ranks) {
    const bool here = rank.rank == mine.rank;
    if (!here && (rank.joined < furthest || rank.who.empty() || is_silent(rank, now))) {
      missing.push_back(&rank);
    }
  }
  std::string text = hang_begin(mine, timeout_seconds);
  if (missing.empty()) {
    return text +
           "All ranks are alive and have come to this operation: the network between them is at "
           "fault; see docs/parallel.md on choosing its interface";
  }
  text +=
      missing.size() == 1 ? "Missing: " : "Missing are " + std::to_string(missing.size()) + ": ";
  for (size_t i = 0; i < std::min(missing.size(), kShownRanks); ++i) {
    text += (i > 0 ? "; " : "") + describe(*missing[i], now);
  }
  if (missing.size() > kShownRanks) text += "; …";
  return text + ". " + cure(missing, now);
}

}  // namespace trainctl
