// An answer within a time limit, or none.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>

namespace trainctl {

// What `ask` returns, or its exception, where it comes within `limit`: a store whose process is
// stopped never answers, and c10d's calls to it know no limit. The thread is then left behind, so
// `ask` must own what it uses.
// `meanwhile` is called now and then while the answer is waited for, and may throw.
template <class Ask>
auto within(
    std::chrono::milliseconds limit, Ask ask, const std::function<void()>& meanwhile = [] {})
    -> std::optional<decltype(ask())> {
  auto task = std::make_shared<std::packaged_task<decltype(ask())()>>(std::move(ask));
  auto answer = task->get_future();
  std::thread([task] { (*task)(); }).detach();
  const auto end = std::chrono::steady_clock::now() + limit;
  constexpr std::chrono::milliseconds kLook{100};
  while (answer.wait_for(kLook) != std::future_status::ready) {
    if (std::chrono::steady_clock::now() >= end) return std::nullopt;
    meanwhile();
  }
  return answer.get();
}

}  // namespace trainctl
