// A subcommand: one file, and one row in the table of dispatch.cpp.
#pragma once

#include <string>
#include <vector>

namespace trainctl {

using Arguments = std::vector<std::string>;  // what follows the command's name

// Each returns the exit code and throws UserError.
int run_command(const Arguments& arguments);
int config_command(const Arguments& arguments);
int checkpoint_command(const Arguments& arguments);
int generate_command(const Arguments& arguments);
int launch_command(const Arguments& arguments);
int doctor_command(const Arguments& arguments);

int cli_main(int argc, char** argv);

}  // namespace trainctl
