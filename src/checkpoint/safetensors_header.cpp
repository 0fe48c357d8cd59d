#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "checkpoint/safetensors_header_sax.h"

namespace trainctl {
namespace {

constexpr uint64_t kLengthBytes = 8;

// Bytes of a tensor, or nothing when they do not fit in 63 bits. A zero dimension does not excuse
// the others: strides are computed from them.
std::optional<uint64_t> byte_size(const StoredTensor& tensor) {
  uint64_t product = stored_type_size(tensor.type);
  bool empty = false;
  for (const int64_t dimension : tensor.shape) {
    empty = empty || dimension == 0;
    const auto factor = static_cast<uint64_t>(std::max<int64_t>(dimension, 1));
    if (product > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / factor) {
      return std::nullopt;
    }
    product *= factor;
  }
  return empty ? 0 : product;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    out += (i ? ", " : "") + std::to_string(shape[i]);
  }
  return out + "]";
}

void check_span(const std::string& name, const StoredTensor& tensor, uint64_t data_bytes) {
  const std::string offsets =
      "data_offsets [" + std::to_string(tensor.begin) + ", " + std::to_string(tensor.end) + "]";
  if (tensor.begin > tensor.end) {
    throw HeaderError("tensor " + printable_name(name) + ": " + offsets + " are reversed");
  }
  if (tensor.end > data_bytes) {
    throw HeaderError("tensor " + printable_name(name) + ": " + offsets +
                      " reach past the end of the " + std::to_string(data_bytes) +
                      " bytes of data (is the file cut, or still being copied?)");
  }
  const std::optional<uint64_t> bytes = byte_size(tensor);
  if (!bytes || *bytes != tensor.end - tensor.begin) {
    throw HeaderError("tensor " + printable_name(name) + ": shape " + shape_text(tensor.shape) +
                      " of " + std::string(stored_type_name(tensor.type)) +
                      (bytes ? " takes " + std::to_string(*bytes) + " bytes"
                             : std::string(" takes more bytes than 63 bits can count")) +
                      ", but " + offsets + " hold " + std::to_string(tensor.end - tensor.begin));
  }
}

// Sorted by where they begin, spans follow one another without gap or overlap. An empty span sorts
// before the tensor that begins where it lies.
void check_coverage(const SafetensorsHeader& header, uint64_t data_bytes) {
  std::vector<const std::pair<const std::string, StoredTensor>*> order;
  order.reserve(header.tensors.size());
  for (const auto& entry : header.tensors) {
    order.push_back(&entry);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  uint64_t covered = 0;
  for (const auto* entry : order) {
    if (entry->second.begin != covered) {
      const bool overlap = entry->second.begin < covered;
      throw HeaderError("tensor " + printable_name(entry->first) + " begins at data byte " +
                        std::to_string(entry->second.begin) + ", but the one before it ends at " +
                        std::to_string(covered) +
                        (overlap ? ": they overlap" : ": there is a hole"));
    }
    covered = entry->second.end;
  }
  if (covered != data_bytes) {
    throw HeaderError("the tensors end at data byte " + std::to_string(covered) +
                      ", but the file has " + std::to_string(data_bytes) + " bytes of data");
  }
}

uint64_t read_header_length(std::span<const std::byte> file) {
  if (file.size() < kLengthBytes) {
    throw HeaderError("the file has " + std::to_string(file.size()) +
                      " bytes, fewer than the 8 of the header length");
  }
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | std::to_integer<uint64_t>(file[i]);
  }
  const std::string says = "the header length says " + std::to_string(length) + " bytes";
  if (length > kMaxHeaderBytes) {
    throw HeaderError(says + ", above the limit of " + std::to_string(kMaxHeaderBytes) +
                      " (is this a safetensors file?)");
  }
  if (length > file.size() - kLengthBytes) {
    throw HeaderError(says + ", but only " + std::to_string(file.size() - kLengthBytes) +
                      " follow (is the file cut, or still being copied?)");
  }
  if (length < 2) {
    throw HeaderError(says + ", too few for a JSON object");
  }
  return length;
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file) {
  const uint64_t length = read_header_length(file);
  SafetensorsHeader header;
  header.data_start = kLengthBytes + length;
  const auto* text = reinterpret_cast<const char*>(file.data()) + kLengthBytes;
  parse_header_json({text, length}, header);

  const uint64_t data_bytes = file.size() - header.data_start;
  for (const auto& [name, tensor] : header.tensors) {
    check_span(name, tensor, data_bytes);
  }
  check_coverage(header, data_bytes);
  return header;
}

std::string format_safetensors_header(
    const std::vector<std::pair<std::string, StoredTensor>>& tensors,
    const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  if (!metadata.empty()) {
    object[kMetadataKey] = metadata;
  }
  for (const auto& [name, tensor] : tensors) {
    // Direct insertion: looking for the key would make an ordered object quadratic.
    object.get_ref<nlohmann::ordered_json::object_t&>().Container::emplace_back(
        name, nlohmann::ordered_json{{"dtype", stored_type_name(tensor.type)},
                                     {"shape", tensor.shape},
                                     {"data_offsets", {tensor.begin, tensor.end}}});
  }
  std::string json;
  try {
    json = object.dump();
  } catch (const nlohmann::json::type_error&) {
    throw HeaderError("a tensor name or a metadata text is not UTF-8");
  }
  json.resize((json.size() + 7) / 8 * 8, ' ');
  std::string out(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) {
    out[i] = static_cast<char>(static_cast<uint64_t>(json.size()) >> (8 * i) & 0xff);
  }
  return out + json;
}

}  // namespace trainctl
