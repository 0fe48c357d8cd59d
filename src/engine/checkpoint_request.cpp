#include "engine/checkpoint_request.h"

#include "trainctl/train/checkpoint_tools.h"

namespace trainctl {
namespace {

// The executable sends every option that it knows, with its default.
using Options = nlohmann::json;

std::optional<int64_t> optional_number(const Options& options, const char* key) {
  const Options& value = options.at(key);
  return value.is_null() ? std::nullopt : std::optional(value.get<int64_t>());
}

ExitCode list_request(const Options& options, const RunHost& host) {
  return list_checkpoints_command({options.at("source"), options.at("verify"), options.at("json")},
                                  host);
}

ExitCode inspect_request(const Options& options, const RunHost& host) {
  return inspect_checkpoint_command(
      {options.at("source"), options.at("tensors"), options.at("stats"), options.at("json")}, host);
}

ExitCode verify_request(const Options& options, const RunHost& host) {
  return verify_checkpoints_command(
      {options.at("source"), options.at("newest"), options.at("json")}, host);
}

ExitCode diff_request(const Options& options, const RunHost& host) {
  return diff_checkpoints_command({options.at("left"), options.at("right"), options.at("only"),
                                   options.at("rtol"), options.at("json")},
                                  host);
}

ExitCode prune_request(const Options& options, const RunHost& host) {
  PruneCheckpoints command;
  command.source = options.at("source").get<std::string>();
  command.keep_latest = optional_number(options, "keep_latest");
  command.keep_every = optional_number(options, "keep_every");
  command.before = optional_number(options, "before");
  command.leftovers = options.at("leftovers");
  command.yes = options.at("yes");
  command.json = options.at("json");
  return prune_checkpoints_command(command, host);
}

ExitCode export_request(const Options& options, const RunHost& host) {
  return export_weights_command(
      {options.at("source"), options.at("output"), options.at("dtype"), options.at("shard_bytes"),
       options.at("force"), options.at("json")},
      host);
}

struct ActionRow {
  const char* name;
  ExitCode (*function)(const Options&, const RunHost&);
};
constexpr ActionRow kActions[] = {{"list", list_request},     {"inspect", inspect_request},
                                  {"verify", verify_request}, {"diff", diff_request},
                                  {"prune", prune_request},   {"export-weights", export_request}};

}  // namespace

ExitCode checkpoint_request(const nlohmann::json& request, const RunHost& host) {
  const Options& options = request.at("options");
  const auto action = options.at("action").get<std::string>();
  for (const ActionRow& row : kActions) {
    if (action == row.name) return row.function(options, host);
  }
  throw std::logic_error("the engine knows no checkpoint action '" + action + "'");
}

}  // namespace trainctl
