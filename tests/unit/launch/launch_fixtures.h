#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "support/testing.h"
#include "trainctl/launch/process_world.h"

namespace trainctl {

// A made-up environment.
inline EnvironmentLookup environment_of(std::map<std::string, std::string> variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

// What a refusal says; empty when nothing was refused.
template <class Function>
std::string refusal(Function function, ExitCode code = ExitCode::kUsage) {
  return refusal_of(code, function);
}

}  // namespace trainctl
