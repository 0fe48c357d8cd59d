// One field's value: from JSON with an explanation where it is wrong, and back to JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "config/field.h"
#include "config/json_tree.h"

namespace trainctl {

// Reads `node` into the field's place in `owner`. Returns what is wrong with it, or "".
std::string read_value(const Field& field, const JsonNode& node, void* owner);

// Null for an optional without a value.
nlohmann::ordered_json write_value(const Field& field, const void* owner);

// One section or list element, nested ones included; fields that do not apply to `config` are left
// out.
nlohmann::ordered_json write_table(const Table& table, const void* owner, const Config& config);

std::string expectation(const Field& field);  // "an integer from 1 to 1000"
std::string number_text(double number);

}  // namespace trainctl
