// The JSON of a safetensors header as a stream of events, inside safetensors_header.cpp's parser.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/safetensors_header.h"

namespace trainctl {

inline constexpr std::string_view kMetadataKey = "__metadata__";

// Fills in tensors and metadata; checks names, keys, kinds of values and types, not yet the spans.
// Throws HeaderError.
void parse_header_json(std::string_view json, SafetensorsHeader& header);

// Names come from the file: shortened, and with nothing in them that a terminal would obey.
std::string printable_name(std::string_view text);

}  // namespace trainctl
