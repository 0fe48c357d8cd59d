// <stem>.safetensors.index.json: which shard holds which tensor, in the layout of the Hugging Face
// libraries. Untrusted input when read.
#pragma once

#include <map>
#include <string>

#include "checkpoint/shard_plan.h"
#include "trainctl/base/files.h"

namespace trainctl {

std::string index_file_name(const std::string& stem);

std::string index_to_json(const ShardedSet& set);

// True for a name that, joined to a folder's path, stays in that folder.
bool is_plain_file_name(const std::string& name);

// Tensor → file. Throws checkpoint_error naming `path`; every file is a plain name, so that nothing
// leads out of the folder.
std::map<std::string, std::string> parse_index(const std::string& json, const fs::path& path);

}  // namespace trainctl
