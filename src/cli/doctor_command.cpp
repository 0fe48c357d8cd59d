// trainctl doctor
#include "cli/command.h"
#include "cli/doctor_arguments.h"
#include "cli/doctor_explain.h"
#include "cli/doctor_preflight.h"
#include "cli/parse.h"
#include "cli/terminal.h"
#include "trainctl/base/error.h"
#include "trainctl/base/explanations.h"
#include "trainctl/doctor/doctor.h"

namespace trainctl {

std::optional<int> parse_doctor_arguments(const Arguments& words, DoctorArguments* arguments) {
  DoctorOptions& options = arguments->options;
  std::string output_dir = options.output_dir.string(), explain;
  CLI::App app("Says whether this machine is fit to train on, and if not, why and what to do.",
               "trainctl doctor");
  app.add_flag("--json", arguments->json, "JSON, with the evidence");
  app.add_flag("--verbose", arguments->verbose, "Everything that was found, not only what matters");
  app.add_option("--device", options.device, "What a run would use: auto (a GPU), cpu, cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--output-dir", output_dir, "Where runs would be written");
  add_repeated(&app, "--host", &options.hosts, "NAME:PORT that must be reachable");
  CLI::Option* asked =
      app.add_option("--explain", explain,
                     "Says what an error means: its text, a log file, - for standard input, or a "
                     "name from docs/troubleshooting.md; exits 1 where nothing is known of it")
          ->option_text("TEXT");
  app.add_flag("--docs", arguments->docs,
               "Prints docs/troubleshooting.md: every error that is known");
  app.add_flag("--preflight", arguments->preflight,
               "Loads the engine and times products, attention, all-reduce and writing; also under "
               "launch, where it names slow and silent ranks");
  CLI::Option* deadline =
      app.add_option("--deadline", arguments->deadline, "With --preflight: seconds for each step")
          ->check(whole_number(1, 86400))
          ->option_text("SECONDS");
  if (const auto done = parse_arguments(&app, words)) return done;
  if (!deadline->empty() && !arguments->preflight)
    throw usage_error("--deadline belongs to --preflight; add that flag");
  options.output_dir = output_dir;
  if (!asked->empty()) arguments->explain = explain;
  return std::nullopt;
}

int doctor_command(const Arguments& words) {
  DoctorArguments arguments;
  if (const auto done = parse_doctor_arguments(words, &arguments)) return *done;
  if (arguments.docs) {
    terminal().print(troubleshooting_markdown());
    return 0;
  }
  if (arguments.explain) return explain_command(*arguments.explain, arguments.json);
  if (arguments.preflight) return preflight_command(arguments);
  const Diagnosis diagnosis = diagnose(arguments.options);
  terminal().print(arguments.json ? diagnosis_to_json(diagnosis).dump(2) + "\n"
                                  : format_diagnosis(diagnosis, arguments.verbose));
  return static_cast<int>(diagnosis.fit() ? ExitCode::kOk : ExitCode::kEnvironment);
}

}  // namespace trainctl
