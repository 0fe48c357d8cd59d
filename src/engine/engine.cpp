// The engine's side of the C border: requests come in as JSON, errors go out through callbacks.
#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "engine/checkpoint_request.h"
#include "runtime/allocator.h"
#include "trainctl/base/error.h"
#include "trainctl/base/log.h"
#include "trainctl/base/version.h"
#include "trainctl/base/world_json.h"
#include "trainctl/config/load.h"
#include "trainctl/engine/engine_api.h"
#include "trainctl/parallel/communicator.h"
#include "trainctl/runtime/explained.h"
#include "trainctl/train/generate_command.h"
#include "trainctl/train/preflight.h"
#include "trainctl/train/trainer.h"

namespace trainctl {
namespace {

using Json = nlohmann::json;

RunHost wrap(const TrainctlHost& host) {
  RunHost out;
  out.print = [&host](const std::string& text) { host.print(host.user, text.c_str()); };
  out.progress = [&host](const std::string& line) { host.progress(host.user, line.c_str()); };
  out.stop_signal = [&host] { return host.stop_signal(host.user); };
  out.began = [&host](const std::string& directory) { host.began(host.user, directory.c_str()); };
  out.is_terminal = host.is_terminal != 0;
  out.terminal_width = host.terminal_width;
  return out;
}

// A single process where the request names none.
ProcessWorld world_of(const Json& request) {
  return request.value("world", Json::object()).get<ProcessWorld>();
}

ExitCode run_command(const Json& request, const RunHost& host) {
  const Json options = request.value("options", Json::object());
  // The executable has validated and resolved the config; reading it again is the one way to get a
  // Config.
  const Config config = parse_config(request.at("config").dump(), "config").config;
  RunOptions run;
  run.resume = options.value("resume", "auto");
  run.restarted = options.value("restarted", false);
  run.print_param_hash = options.value("print_param_hash", false);
  run.config_warnings = request.value("warnings", std::vector<std::string>());
  return run_training(config, world_of(request), run, host);
}

ExitCode generate_command(const Json& request, const RunHost& host) {
  const Json& options = request.at("options");
  GenerateCommand command;
  command.source = options.at("source").get<std::string>();
  command.prompt = options.at("prompt").get<std::string>();
  command.generate.max_new_tokens =
      options.value("max_new_tokens", command.generate.max_new_tokens);
  command.generate.temperature = options.value("temperature", command.generate.temperature);
  command.generate.top_k = options.value("top_k", command.generate.top_k);
  command.generate.seed = options.value("seed", command.generate.seed);
  return run_generate(command, host);
}

ExitCode preflight_command(const Json& request, const RunHost& host) {
  const Json& options = request.at("options");
  PreflightOptions preflight;
  preflight.device = options.at("device").get<std::string>();
  preflight.output_dir = options.at("output_dir").get<std::string>();
  preflight.deadline = options.at("deadline").get<double>();
  preflight.json = options.at("json").get<bool>();
  return run_preflight(preflight, world_of(request), host);
}

struct CommandRow {
  const char* name;
  ExitCode (*function)(const Json&, const RunHost&);
};
constexpr CommandRow kCommands[] = {{"run", run_command},
                                    {"generate", generate_command},
                                    {"preflight", preflight_command},
                                    {"checkpoint", checkpoint_request}};

ExitCode dispatch(const Json& request, const RunHost& host) {
  const std::string name = request.at("command").get<std::string>();
  for (const CommandRow& row : kCommands) {
    if (name == row.name) return row.function(request, host);
  }
  throw std::logic_error("the engine knows no command '" + name + "'");
}

int fail(const TrainctlHost& host, ExitCode code, const std::string& text) {
  // An error that another rank has told already comes without words.
  if (!text.empty()) host.error(host.user, static_cast<int>(code), text.c_str());
  if (connections_abandoned()) {
    // Threads of the process group may wait for ranks that never come: nothing waits for them.
    std::fflush(nullptr);
    ::_exit(static_cast<int>(code));
  }
  return static_cast<int>(code);
}

int fail_with(const TrainctlHost& host, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const UserError& e) {
    return fail(host, e.code(), e.what());
  } catch (const std::filesystem::filesystem_error& e) {
    return fail(host, ExitCode::kUsage,
                "cannot use '" + e.path1().string() + "': " + e.code().message());
  } catch (const std::system_error& e) {
    return fail(host, ExitCode::kEnvironment,
                std::string("the system refused a thread or another resource: ") + e.what() +
                    "; lower data.workers and backend.threads, or raise the limit on processes "
                    "(ulimit -u)");
  } catch (const std::exception& e) {
    return fail(host, ExitCode::kTrainingFailed, std::string("defect: ") + e.what());
  }
}

// Several ranks say the same things: rank 0 does it for all, and each host's first rank warns of
// what may be wrong there alone.
LogSink make_log_sink(const TrainctlHost& host, const ProcessWorld& world) {
  return [host, world](LogLevel level, const std::string& text) {
    if (world.rank > 0 && level < LogLevel::kError &&
        (world.local_rank > 0 || level < LogLevel::kWarning)) {
      return;
    }
    const bool named = world.rank > 0 && level == LogLevel::kWarning;
    const std::string line = named ? "rank " + std::to_string(world.rank) + ": " + text : text;
    host.log(host.user, static_cast<int>(level), line.c_str());
  };
}

}  // namespace
}  // namespace trainctl

extern "C" __attribute__((visibility("default"))) const char* trainctl_engine_build_id(void) {
  return trainctl::kBuildId;
}

extern "C" __attribute__((visibility("default"))) int trainctl_engine_call(
    const char* request, const TrainctlHost* host) {
  using namespace trainctl;
  install_cpu_allocator();
  c10::initLogging();  // or TORCH_CPP_LOG_LEVEL would not count
  try {
    const Json json = Json::parse(request);
    set_log_sink(make_log_sink(*host, world_of(json)));
    const int code = static_cast<int>(dispatch(json, wrap(*host)));
    set_log_sink(nullptr);
    return code;
  } catch (const std::exception&) {
    return fail_with(*host, explained(std::current_exception()));
  }
}
