#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "trainctl/base/error.h"
#include "trainctl/launch/process_world.h"

namespace trainctl::testing {

using Variables = std::map<std::string, std::string>;

inline EnvironmentLookup lookup_in(const Variables& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end() || found->second.empty()) return std::nullopt;
    return found->second;
  };
}

// With some of them changed; an empty value unsets.
inline Variables with(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

template <typename Function>
std::string usage_error_of(Function function) {
  try {
    function();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "no error";
}

// What srun sets for task 2 of 3, on the second of two nodes.
inline const Variables kStep = {{"SLURM_JOB_ID", "41"},
                                {"SLURM_STEP_ID", "1"},
                                {"SLURM_NTASKS", "3"},
                                {"SLURM_STEP_NUM_TASKS", "3"},
                                {"SLURM_STEP_NUM_NODES", "2"},
                                {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
                                {"SLURM_TASKS_PER_NODE", "2,1"},
                                {"SLURM_STEP_NODELIST", "n[05-06]"},
                                {"SLURM_JOB_NODELIST", "n[04-07]"},
                                {"SLURM_JOB_NUM_NODES", "4"},
                                {"SLURM_PROCID", "2"},
                                {"SLURM_LOCALID", "0"},
                                {"SLURM_NODEID", "1"}};

// What torchrun sets for rank 3 of 4, on the second of two hosts.
inline const Variables kTorchrun = {{"WORLD_SIZE", "4"},
                                    {"RANK", "3"},
                                    {"LOCAL_RANK", "1"},
                                    {"LOCAL_WORLD_SIZE", "2"},
                                    {"GROUP_RANK", "1"},
                                    {"GROUP_WORLD_SIZE", "2"},
                                    {"MASTER_ADDR", "host1"},
                                    {"MASTER_PORT", "29501"},
                                    {"TORCHELASTIC_RUN_ID", "abc"},
                                    {"TORCHELASTIC_RESTART_COUNT", "2"},
                                    {"TORCHELASTIC_USE_AGENT_STORE", "True"}};

}  // namespace trainctl::testing
