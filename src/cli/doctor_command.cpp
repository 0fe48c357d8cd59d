// trainctl doctor
#include "cli/command.h"
#include "cli/parse.h"
#include "cli/terminal.h"
#include "trainctl/doctor/doctor.h"
#include "trainctl/launch/endpoint.h"

namespace trainctl {

int doctor_command(const Arguments& words) {
  DoctorOptions options;
  bool json = false, verbose = false;
  std::string output_dir = options.output_dir.string();
  CLI::App app("Says whether this machine is fit to train on, and if not, why and what to do.",
               "trainctl doctor");
  app.add_flag("--json", json, "JSON, with the evidence");
  app.add_flag("--verbose", verbose, "Everything that was found, not only what matters");
  app.add_option("--device", options.device, "What a run would use: auto (a GPU), cpu, cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--output-dir", output_dir, "Where runs would be written");
  add_repeated(&app, "--host", &options.hosts, "NAME or NAME:PORT that must be reachable");
  if (const auto done = parse_arguments(&app, words)) return *done;
  options.output_dir = output_dir;
  for (const std::string& host : options.hosts) parse_endpoint(host, "--host");
  const Diagnosis diagnosis = diagnose(options);
  terminal().print(json ? diagnosis_to_json(diagnosis).dump(2) + "\n"
                        : format_diagnosis(diagnosis, verbose));
  return static_cast<int>(diagnosis.fit() ? ExitCode::kOk : ExitCode::kEnvironment);
}

}  // namespace trainctl
