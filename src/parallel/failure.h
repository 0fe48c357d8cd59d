// What a failed operation of several ranks means, in words.
#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <vector>

#include "parallel/heartbeat.h"

namespace trainctl {

enum class FailureKind {
  kOther,     // not of the connections between ranks
  kTimeout,   // another rank did not come in time
  kPeerLost,  // another rank's connection has closed
};

FailureKind failure_kind(const std::exception& error);

// "training hangs: … ", before what is known of the others.
std::string hang_begin(const RankState& mine, double timeout_seconds);

// Names the ranks that the others wait for: those that have come to fewer operations than the
// furthest, or have given no sign of life for some seconds. `now` in seconds since 1970.
std::string hang_report(const std::vector<RankState>& ranks, const RankState& mine, double now,
                        double timeout_seconds);

// What is told of an error on other ranks, and of LibTorch's: the rest is detail.
inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace trainctl
