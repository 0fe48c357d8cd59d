// trainctl checkpoint list|inspect|verify|diff|prune|export-weights
#include <cmath>

#include "cli/command.h"
#include "cli/engine_host.h"
#include "cli/parse.h"
#include "cli/terminal.h"
#include "trainctl/base/error.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

constexpr const char* kSourceHelp = "A run's folder, or one of its checkpoints";

int ask_engine(const char* action, nlohmann::json options) {
  options["action"] = action;
  return call_engine({{"command", "checkpoint"}, {"options", std::move(options)}});
}

nlohmann::json number_or_null(const CLI::Option* option, int64_t value) {
  return option->count() > 0 ? nlohmann::json(value) : nlohmann::json(nullptr);
}

int checkpoint_list(const Arguments& words) {
  std::string source;
  bool verify = false, json = false;
  CLI::App app(
      "Lists a run's checkpoints, and which one a resume would take. Sizes and headers are "
      "checked, "
      "checksums only with --verify.",
      "trainctl checkpoint list");
  app.add_option("RUN", source, kSourceHelp)->required();
  app.add_flag("--verify", verify, "Read every byte, as a resume does");
  app.add_flag("--json", json, "JSON");
  if (const auto done = parse_arguments(&app, words)) return *done;
  return ask_engine("list", {{"source", source}, {"verify", verify}, {"json", json}});
}

int checkpoint_inspect(const Arguments& words) {
  std::string source;
  std::vector<std::string> tensors;
  bool stats = false, json = false;
  CLI::App app("Shows what is in a checkpoint: step, files, tensors, training state, config.",
               "trainctl checkpoint inspect");
  app.add_option("RUN_OR_CHECKPOINT", source, kSourceHelp)->required();
  add_repeated(&app, "--tensors", &tensors,
               "Only the tensors, of model and optimizer, whose names match")
      ->option_text("GLOB");
  app.add_flag("--stats", stats, "Smallest, largest, mean, norm, and how many are NaN or infinite");
  app.add_flag("--json", json, "JSON");
  if (const auto done = parse_arguments(&app, words)) return *done;
  return ask_engine("inspect",
                    {{"source", source}, {"tensors", tensors}, {"stats", stats}, {"json", json}});
}

int checkpoint_verify(const Arguments& words) {
  std::string source;
  bool newest = false, json = false;
  CLI::App app(
      "Reads every byte of a run's checkpoints, or of one, and compares checksums. Ends with 5 "
      "when "
      "anything is damaged.",
      "trainctl checkpoint verify");
  app.add_option("RUN_OR_CHECKPOINT", source, kSourceHelp)->required();
  app.add_flag("--newest", newest, "Only the newest of a run");
  app.add_flag("--json", json, "JSON");
  if (const auto done = parse_arguments(&app, words)) return *done;
  return ask_engine("verify", {{"source", source}, {"newest", newest}, {"json", json}});
}

int checkpoint_diff(const Arguments& words) {
  std::string left, right;
  std::vector<std::string> only;
  double rtol = 0;
  bool json = false;
  CLI::App app(
      "Compares two checkpoints. Ends with 0 when all that was compared is equal, with 1 when not.",
      "trainctl checkpoint diff");
  app.add_option("A", left, kSourceHelp)->required();
  app.add_option("B", right, "The same")->required();
  add_repeated(&app, "--only", &only, "Compare only this: model, optimizer, state, config")
      ->option_text("PART")
      ->check(CLI::IsMember({"model", "optimizer", "state", "config"}));
  app.add_option("--rtol", rtol,
                 "Tensors with ‖A−B‖ up to this times ‖A‖ count as equal; 0: bitwise")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_flag("--json", json, "JSON");
  if (const auto done = parse_arguments(&app, words)) return *done;
  if (!std::isfinite(rtol)) throw usage_error("--rtol must be a number from 0 to 1");
  return ask_engine(
      "diff", {{"left", left}, {"right", right}, {"only", only}, {"rtol", rtol}, {"json", json}});
}

int checkpoint_prune(const Arguments& words) {
  std::string source;
  int64_t keep_latest = 0, keep_every = 0, before = 0;
  bool leftovers = false, yes = false, json = false;
  CLI::App app(
      "Says which checkpoints of a run would go, and with --yes removes them. The newest whole one "
      "always stays.",
      "trainctl checkpoint prune");
  app.add_option("RUN", source, "A run's folder")->required();
  const auto* latest = app.add_option("--keep-latest", keep_latest, "Keep this many of the newest")
                           ->check(whole_number(1, INT64_MAX));
  const auto* every =
      app.add_option("--keep-every", keep_every, "Keep those whose step is a multiple of this")
          ->check(whole_number(1, INT64_MAX));
  const auto* older = app.add_option("--before", before, "Only those of an earlier step may go")
                          ->check(whole_number(0, INT64_MAX));
  app.add_flag("--leftovers", leftovers, "Also what interrupted saves left");
  app.add_flag("--yes", yes, "Remove them, instead of only saying which");
  app.add_flag("--json", json, "JSON");
  if (const auto done = parse_arguments(&app, words)) return *done;
  if (latest->count() + every->count() + older->count() == 0 && !leftovers) {
    throw usage_error(
        "prune needs to be told what may go: --keep-latest, --keep-every, --before or --leftovers");
  }
  return ask_engine("prune", {{"source", source},
                              {"keep_latest", number_or_null(latest, keep_latest)},
                              {"keep_every", number_or_null(every, keep_every)},
                              {"before", number_or_null(older, before)},
                              {"leftovers", leftovers},
                              {"yes", yes},
                              {"json", json}});
}

int checkpoint_export_weights(const Arguments& words) {
  std::string source, output, dtype = "keep";
  uint64_t shard_bytes = 5'000'000'000;
  bool force = false, json = false;
  CLI::App app(
      "Writes a checkpoint's weights as the Hugging Face libraries have them: model.safetensors, "
      "or "
      "several files with an index.",
      "trainctl checkpoint export-weights");
  app.add_option("RUN_OR_CHECKPOINT", source, kSourceHelp)->required();
  app.add_option("--output", output, "A folder, or one file that ends in .safetensors")->required();
  app.add_option("--dtype", dtype, "Type of the floating-point tensors: keep, fp32, bf16, fp16")
      ->check(CLI::IsMember({"keep", "fp32", "bf16", "fp16"}))
      ->capture_default_str();
  const auto* size =
      app.add_option("--shard-size", shard_bytes,
                     "Largest file, as 500MB or 2GiB; a larger tensor has a file of its own")
          ->transform(CLI::AsSizeValue(true))
          ->default_str("5GB");
  app.add_flag("--force", force, "Replace weights that are there");
  app.add_flag("--json", json, "JSON");
  if (const auto done = parse_arguments(&app, words)) return *done;
  const bool single = output.ends_with(".safetensors");
  if (single && size->count() > 0) {
    throw usage_error(
        "--shard-size needs a folder as --output, not one file; leave one of them out");
  }
  if (shard_bytes == 0)
    throw usage_error("--shard-size must be at least one byte, as 500MB or 2GiB");
  return ask_engine("export-weights", {{"source", source},
                                       {"output", output},
                                       {"dtype", dtype},
                                       {"shard_bytes", single ? 0 : shard_bytes},
                                       {"force", force},
                                       {"json", json}});
}

struct CheckpointAction {
  const char* name;
  const char* summary;
  int (*function)(const Arguments&);
};

constexpr CheckpointAction kCheckpointActions[] = {
    {"list", "steps, sizes, ages, and which one a resume takes", checkpoint_list},
    {"inspect", "step, files, tensors, training state and config of one", checkpoint_inspect},
    {"verify", "read every byte and compare checksums", checkpoint_verify},
    {"diff", "what differs between two", checkpoint_diff},
    {"prune", "remove older ones by a rule", checkpoint_prune},
    {"export-weights", "weights for the Hugging Face libraries", checkpoint_export_weights},
};

std::string checkpoint_usage() {
  std::string text = "Usage: trainctl checkpoint SUBCOMMAND …\n\nSubcommands:\n";
  for (const CheckpointAction& row : kCheckpointActions) {
    text += std::string("  ") + row.name + std::string(16 - std::string(row.name).size(), ' ') +
            row.summary + "\n";
  }
  return text +
         "\ntrainctl checkpoint SUBCOMMAND --help says more.\n"
         "Exit codes: 0 done (diff: equal), 1 diff: different, 2 command line wrong, 5 a "
         "checkpoint "
         "is damaged or missing.\n";
}

}  // namespace

int checkpoint_command(const Arguments& words) {
  std::vector<std::string> names;
  for (const CheckpointAction& row : kCheckpointActions) names.emplace_back(row.name);
  if (words.empty()) throw usage_error("checkpoint needs one of " + join(names, ", "));
  if (words[0] == "--help" || words[0] == "-h") {
    terminal().print(checkpoint_usage());
    return 0;
  }
  for (const CheckpointAction& row : kCheckpointActions) {
    if (words[0] == row.name) return row.function({words.begin() + 1, words.end()});
  }
  const auto near = nearest(words[0], names);
  throw usage_error("checkpoint has no '" + words[0] + "'" +
                    (near ? "; did you mean '" + *near + "'?" : ": it has " + join(names, ", ")));
}

}  // namespace trainctl
