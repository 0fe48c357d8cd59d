// Runs functions in child processes, all at once, each with a deadline.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace trainctl::doctor {

struct ChildAnswer {
  std::string text;    // what the function returned
  std::string failed;  // empty, or why there is none: "no answer within 1.8 s", "ended by SIGSEGV"
};

// The caller has no other threads (fork). Children die with the caller.
std::vector<ChildAnswer> in_children(const std::vector<std::function<std::string()>>& functions,
                                     std::chrono::milliseconds deadline);

}  // namespace trainctl::doctor
