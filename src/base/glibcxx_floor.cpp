// Keeps the units loadable with libstdc++ of GCC 11 (GLIBCXX_3.4.29), as on RHEL 9. Built with GCC
// 12, condition_variable::wait is bound to a symbol version that GCC 12 brought (GLIBCXX_3.4.30),
// although the function did not change. Each unit takes this definition of it instead, hidden in
// the unit.
#if defined(__GLIBCXX__) || __has_include(<bits/c++config.h>)
#include <pthread.h>

#include <condition_variable>
#include <mutex>

extern "C" __attribute__((visibility("hidden"))) void trainctl_condition_variable_wait(
    std::condition_variable* condition,
    std::unique_lock<std::mutex>&
        lock) __asm__("_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE");

extern "C" void trainctl_condition_variable_wait(std::condition_variable* condition,
                                                 std::unique_lock<std::mutex>& lock) {
  pthread_cond_wait(condition->native_handle(), lock.mutex()->native_handle());
}
#endif
