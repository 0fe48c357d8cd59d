#include "checkpoint/safetensors_header_sax.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

namespace trainctl {
namespace {

constexpr size_t kMaxDimensions = 64;  // what ATen's dimension sets hold

// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"key":
// "text"}} Fed by nlohmann's iterative parser, it stops at the first thing that does not belong, so
// neither nesting nor numbers nor repeated keys cost anything. Errors are thrown as HeaderError.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderHandler(SafetensorsHeader& header) : header_(header) {}

  bool null() override { return refuse_value("null"); }
  bool boolean(bool) override { return refuse_value("true or false"); }
  bool number_integer(number_integer_t value) override {
    return refuse_value("the negative number " + std::to_string(value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return refuse_value("the number " + printable_name(text) + ", which is not a 64-bit integer");
  }
  bool binary(binary_t&) override { return refuse_value("binary"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kArray) {
      return refuse_value("the number " + std::to_string(value));
    }
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return refuse_value("the number " + std::to_string(value) + ", which exceeds 2^63 - 1");
    }
    const size_t most = field_ == Field::kShape ? kMaxDimensions : 2;
    if (numbers_.size() == most) {
      throw HeaderError(where() + " has more than " + std::to_string(most) + " numbers");
    }
    numbers_.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      header_.metadata[key_] = value;
      return true;
    }
    if (place_ != Place::kTensor || field_ != Field::kType) {
      return refuse_value("a string");
    }
    const std::optional<StoredType> type = stored_type_by_name(value);
    if (!type) {
      throw HeaderError("tensor " + printable_name(tensor_name_) + " has the unknown dtype " +
                        printable_name(value));
    }
    tensor_->type = *type;
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::kOutside) {
      place_ = Place::kTop;
      return true;
    }
    if (place_ != Place::kTop) {
      return refuse_value("an object");
    }
    if (key_ == kMetadataKey) {
      if (seen_metadata_) {
        throw HeaderError("the key '__metadata__' stands twice in the header");
      }
      seen_metadata_ = true;
      place_ = Place::kMetadata;
      return true;
    }
    const auto [entry, inserted] = header_.tensors.try_emplace(key_);
    if (!inserted) {
      throw HeaderError("tensor " + printable_name(key_) + " stands twice in the header");
    }
    tensor_name_ = key_;
    tensor_ = &entry->second;
    seen_.fill(false);
    place_ = Place::kTensor;
    return true;
  }

  bool key(string_t& value) override {
    key_ = value;
    if (place_ == Place::kTensor) {
      return tensor_field(value);
    }
    if (place_ == Place::kMetadata && header_.metadata.contains(value)) {
      throw HeaderError("the metadata key " + printable_name(value) +
                        " stands twice in the header");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      for (size_t i = 0; i < kFieldNames.size(); ++i) {
        if (!seen_[i]) {
          throw HeaderError("tensor " + printable_name(tensor_name_) + " has no " +
                            std::string(kFieldNames[i]));
        }
      }
    }
    place_ = place_ == Place::kTop ? Place::kOutside : Place::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor || field_ == Field::kType) {
      return refuse_value("an array");
    }
    place_ = Place::kArray;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    if (field_ == Field::kShape) {
      tensor_->shape = numbers_;
      return true;
    }
    if (numbers_.size() != 2) {
      throw HeaderError(where() + " has " + std::to_string(numbers_.size()) +
                        " numbers instead of 2");
    }
    tensor_->begin = static_cast<uint64_t>(numbers_[0]);
    tensor_->end = static_cast<uint64_t>(numbers_[1]);
    return true;
  }

  // The library's own text may repeat megabytes of the header.
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    throw HeaderError("the header is not valid JSON in UTF-8 (byte " + std::to_string(position) +
                      " of the header)");
  }

 private:
  enum class Place { kOutside, kTop, kTensor, kArray, kMetadata };
  enum class Field { kType, kShape, kOffsets };
  static constexpr std::array<std::string_view, 3> kFieldNames = {"dtype", "shape", "data_offsets"};

  bool tensor_field(const std::string& name) {
    const auto found = std::find(kFieldNames.begin(), kFieldNames.end(), name);
    if (found == kFieldNames.end()) {
      throw HeaderError("tensor " + printable_name(tensor_name_) + " has the unknown key " +
                        printable_name(name));
    }
    const auto index = static_cast<size_t>(found - kFieldNames.begin());
    if (seen_[index]) {
      throw HeaderError("tensor " + printable_name(tensor_name_) + " has the key " +
                        printable_name(name) + " twice");
    }
    seen_[index] = true;
    field_ = static_cast<Field>(index);
    return true;
  }

  std::string where() const {
    switch (place_) {
      case Place::kOutside:
        return "the header";
      case Place::kTop:
        return printable_name(key_);
      case Place::kMetadata:
        return "metadata " + printable_name(key_);
      case Place::kTensor:
      case Place::kArray:
        break;
    }
    return std::string(kFieldNames[static_cast<size_t>(field_)]) + " of tensor " +
           printable_name(tensor_name_);
  }

  bool refuse_value(const std::string& found) const {
    std::string wanted = "an object";
    if (place_ == Place::kMetadata || (place_ == Place::kTensor && field_ == Field::kType)) {
      wanted = "a string";
    } else if (place_ == Place::kTensor) {
      wanted = "an array of integers";
    } else if (place_ == Place::kArray) {
      wanted = "integers that are not negative";
    }
    throw HeaderError(where() + " must be " + wanted + ", not " + found);
  }

  SafetensorsHeader& header_;
  Place place_ = Place::kOutside;
  Field field_ = Field::kType;
  bool seen_metadata_ = false;
  std::array<bool, 3> seen_{};
  std::string key_, tensor_name_;
  StoredTensor* tensor_ = nullptr;
  std::vector<int64_t> numbers_;
};

}  // namespace

void parse_header_json(std::string_view json, SafetensorsHeader& header) {
  if (json.front() != '{') {
    throw HeaderError("the header is not a JSON object: it does not begin with '{'");
  }
  // The JSON library takes a NUL for the end of its input and would not see what follows.
  if (std::memchr(json.data(), 0, json.size()) != nullptr) {
    throw HeaderError("the header is not valid JSON: it has a NUL byte");
  }
  HeaderHandler handler(header);
  nlohmann::json::sax_parse(json.begin(), json.end(), &handler);
}

std::string printable_name(std::string_view text) {
  constexpr size_t kShown = 80;
  std::string out = "'";
  for (const char c : text.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  if (text.size() > kShown) {
    // Not in the middle of a UTF-8 sequence.
    while (out.size() > 1 && (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80) {
      out.pop_back();
    }
    if (static_cast<unsigned char>(out.back()) >= 0xc0) {
      out.pop_back();
    }
    out += "…";
  }
  return out + "'";
}

}  // namespace trainctl
