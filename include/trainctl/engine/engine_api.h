// The C border between the executable and libtrainctl_engine.so. Nothing but C types crosses it.
#pragma once
// NOLINTBEGIN(modernize-*): this header is C

#ifdef __cplusplus
extern "C" {
#endif

struct TrainctlHost {
  void* user;
  void (*log)(void* user, int level, const char* text);  // one record, see LogLevel
  void (*progress)(void* user, const char* line);  // transient line on a terminal; "" clears it
  void (*print)(void* user, const char* text);     // for stdout, as it is
  void (*error)(void* user, int exit_code,
                const char* text);  // a UserError, or a defect with code 1
  int (*stop_signal)(void* user);   // 0, or the signal that asked to stop
  // The run of this process begins, and this is its folder; not called for a refused run.
  void (*began)(void* user, const char* run_directory);
  int is_terminal;  // stdout is one
  int terminal_width;
};

// `request` is JSON: {"command": "run", "config": {…resolved…}, "options": {…}}. Returns the exit
// code.
typedef int (*TrainctlEngineCall)(const char* request, const struct TrainctlHost* host);
typedef const char* (*TrainctlEngineBuildId)(void);

#define TRAINCTL_ENGINE_CALL_SYMBOL "trainctl_engine_call"
#define TRAINCTL_ENGINE_BUILD_ID_SYMBOL "trainctl_engine_build_id"
// NOLINTEND(modernize-*)

#ifdef __cplusplus
}
#endif
