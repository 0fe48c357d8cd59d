// trainctl doctor
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/doctor_arguments.h"
#include "cli/doctor_explain.h"
#include "cli/doctor_preflight.h"
#include "cli/parse.h"
#include "cli/terminal.h"
#include "trainctl/base/error.h"
#include "trainctl/base/explanations.h"
#include "trainctl/doctor/compare.h"
#include "trainctl/doctor/doctor.h"
#include "trainctl/launch/endpoint.h"

namespace trainctl {

std::optional<int> parse_doctor_arguments(const Arguments& words, DoctorArguments* out) {
  DoctorOptions& options = out->options;
  std::string output_dir = options.output_dir.string(), root = options.root.string(), explain;
  double deadline = 0;
  CLI::App app(
      "Says whether this machine is fit to train on, and if not, why and what to do.\n"
      "Changes nothing. Exit code 0: fit, 3: not fit.",
      "trainctl doctor");
  app.add_flag("--json", out->json, "JSON, with the evidence");
  app.add_flag("--verbose", out->verbose, "Everything that was found, not only what matters");
  app.add_option("--device", options.device, "What a run would use: auto (a GPU), cpu, cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--output-dir", output_dir, "Where runs would be written");
  add_repeated(&app, "--host", &options.hosts, "NAME or NAME:PORT that must be reachable");
  app.add_option(
         "--deadline", deadline,
         "Seconds that each group of probes (1.8) or each step of the preflight (60) may take")
      ->check(CLI::Range(0.1, 86400.0));
  CLI::Option* asked =
      app.add_option("--explain", explain,
                     "Says what an error means: its text, a log file, - for standard input, or a "
                     "name from docs/troubleshooting.md; exits 1 where nothing is known of it")
          ->option_text("TEXT");
  app.add_flag("--docs", out->docs, "Prints docs/troubleshooting.md: every error that is known");
  app.add_flag("--preflight", out->preflight,
               "Loads the engine and times products, attention, all-reduce and writing; also under "
               "launch, where it names slow and silent ranks");
  app.add_option("--compare", out->compare,
                 "RUN or FILE (of doctor --json): what is different here; two of them: between "
                 "them. Exit code 0: nothing that can change numbers, 3: something can")
      ->expected(1, 2)
      ->type_name("RUN|FILE");
  // For a run itself, and for looking at another machine's /proc, /sys, /dev and /etc.
  app.add_option("--snapshot", out->snapshot)->group("");
  app.add_option("--snapshot-of", out->snapshot_of)->group("");
  app.add_option("--root", root)->group("");
  if (const auto done = parse_arguments(&app, words)) return done;
  options.output_dir = output_dir;
  for (const std::string& host : options.hosts) parse_endpoint(host, "--host");
  options.root = root;
  if (!asked->empty()) out->explain = explain;
  if (deadline > 0) {
    options.deadline = std::chrono::milliseconds(static_cast<int64_t>(deadline * 1000));
    out->preflight_deadline = deadline;
  }
  return std::nullopt;
}

namespace {

// Beside a run: out of its way, and never longer than it.
void write_snapshot(const DoctorArguments& arguments) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (arguments.snapshot_of != 0 && ::getppid() != arguments.snapshot_of) return;  // it has ended
  ::setpriority(PRIO_PROCESS, 0, 19);
  DoctorOptions options = arguments.options;
  options.quick = true;
  options.deadline = std::chrono::milliseconds(1500);  // a run waits two seconds for it at its end
  const std::string text =
      diagnosis_to_json(diagnose(options))
          .dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
      "\n";
  std::error_code error;
  const fs::path path = arguments.snapshot;
  if (!fs::is_directory(path.parent_path(), error)) return;
  // What a snapshot left that was killed with its run.
  for (const fs::path& stale : expand_glob(path.string() + ".tmp-*")) fs::remove(stale, error);
  write_file_atomic(path, text, ExitCode::kUsage);
}

int compare(const DoctorArguments& arguments) {
  const Snapshot there = read_snapshot(arguments.compare.back());
  Snapshot here;
  if (arguments.compare.size() == 2) {
    here = read_snapshot(arguments.compare.front());
  } else {
    here.name = "this machine";
    here.content = diagnosis_to_json(diagnose(arguments.options));
  }
  const Comparison comparison = compare_snapshots(here, there);
  terminal().print(arguments.json ? comparison_to_json(comparison).dump(2) + "\n"
                                  : format_comparison(comparison));
  return static_cast<int>(comparison.same_numbers() ? ExitCode::kOk : ExitCode::kEnvironment);
}

}  // namespace

int doctor_command(const Arguments& words) {
  DoctorArguments arguments;
  if (const auto done = parse_doctor_arguments(words, &arguments)) return *done;
  if (!arguments.snapshot.empty()) {
    write_snapshot(arguments);
    return 0;
  }
  if (arguments.docs) {
    terminal().print(troubleshooting_markdown());
    return 0;
  }
  if (arguments.explain) return explain_command(*arguments.explain, arguments.json);
  if (arguments.preflight) return preflight_command(arguments);
  if (!arguments.compare.empty()) return compare(arguments);
  const Diagnosis diagnosis = diagnose(arguments.options);
  DiagnosisStyle style;
  style.verbose = arguments.verbose;
  style.colour = terminal().is_terminal() && std::getenv("NO_COLOR") == nullptr;
  if (terminal().is_terminal()) style.width = terminal().width();
  terminal().print(arguments.json
                       ? diagnosis_to_json(diagnosis).dump(
                             2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                             "\n"
                       : format_diagnosis(diagnosis, style));
  return static_cast<int>(diagnosis.fit() ? ExitCode::kOk : ExitCode::kEnvironment);
}

}  // namespace trainctl
