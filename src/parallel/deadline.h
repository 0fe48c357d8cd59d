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
template <class Ask>
auto within(std::chrono::milliseconds limit, Ask ask) -> std::optional<decltype(ask())> {
  auto task = std::make_shared<std::packaged_task<decltype(ask())()>>(std::move(ask));
  auto answer = task->get_future();
  std::thread([task] { (*task)(); }).detach();
  if (answer.wait_for(limit) != std::future_status::ready) return std::nullopt;
  return answer.get();
}

}  // namespace trainctl
