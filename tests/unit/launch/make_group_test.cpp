#include "launch/make_group.h"

#include "environment_fixtures.h"
#include "trainctl/launch/launch_defaults.h"

namespace trainctl::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MakeGroup, ASlurmNameThatDoesNotResolveIsExplainedWithSlurmsVariable) {
  LaunchOptions options;
  apply_launch_defaults(lookup_in(with(kStep, {{"SLURM_STEP_NUM_TASKS", "2"},
                                               {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                                               {"SLURM_TASKS_PER_NODE", "1(x2)"},
                                               {"SLURM_STEP_NODELIST", "no-such[05-06].invalid"},
                                               {"SLURM_PROCID", "1"}})),
                        &options);
  options.join_timeout = 1;
  std::string text;
  try {
    make_group(options)->join({}, 0, [] { return false; });
  } catch (const UserError& error) {
    text = error.what();
  }
  EXPECT_THAT(text,
              AllOf(HasSubstr("'no-such05.invalid' of SLURM_STEP_NODELIST cannot be resolved"),
                    HasSubstr("SLURM_STEP_NODELIST is no-such[05-06].invalid"),
                    HasSubstr("--rdzv-endpoint ADDRESS:")));
}

}  // namespace
}  // namespace trainctl::testing
