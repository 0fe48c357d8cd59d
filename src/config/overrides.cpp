// --set a.b.c=value: puts a value into the tree before it is read, so that it meets the same
// checks.
#include "config/load_state.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

struct Step {
  std::string key;
  std::vector<size_t> indices;  // of "groups[0]"
};

// "optimizer.groups[0].params" → steps, or nothing where it is malformed.
std::vector<Step> split_path(const std::string& path) {
  std::vector<Step> steps;
  size_t at = 0;
  while (at <= path.size()) {
    const size_t end = std::min(path.find('.', at), path.size());
    std::string part = path.substr(at, end - at);
    Step step;
    while (part.ends_with(']')) {
      const size_t open = part.rfind('[');
      if (open == std::string::npos) return {};
      const std::string digits = part.substr(open + 1, part.size() - open - 2);
      if (digits.empty() || digits.size() > 6 ||
          digits.find_first_not_of("0123456789") != std::string::npos) {
        return {};
      }
      step.indices.insert(step.indices.begin(), std::stoul(digits));
      part.resize(open);
    }
    if (part.empty()) return {};
    step.key = part;
    steps.push_back(step);
    at = end + 1;
  }
  return steps;
}

const Field* find_field(const std::vector<Step>& steps) {
  const Table* table = &config_table();
  const Field* field = nullptr;
  for (const Step& step : steps) {
    if (table == nullptr) return nullptr;
    field = table->find(step.key);
    if (field == nullptr) return nullptr;
    table = field->is_section() ? &field->section() : nullptr;
    if (field->is_list() && !step.indices.empty()) table = &field->list.table();
  }
  return field;
}

bool takes_plain_text(const Field* field) {
  return field != nullptr && field->slot != nullptr &&
         std::holds_alternative<std::string*>(field->slot(nullptr));
}

void set_source(JsonNode* node, int source) {
  node->source = source;
  node->line = 0;
  for (JsonNode& item : node->items) set_source(&item, source);
  for (JsonMember& member : node->members) {
    member.source = source;
    member.line = 0;
    set_source(&member.value, source);
  }
}

// The value as JSON or, where it is none, as a string: `--set model.type=gpt` needs no quotes.
JsonNode read_override_value(const std::string& text, const Field* field, int source,
                             const std::string& path, ProblemReport* report) {
  JsonNode plain;
  plain.kind = JsonKind::kString;
  plain.text = text;
  plain.source = source;
  JsonResult parsed = parse_json(text);
  if (parsed.complete && !parsed.problems.empty()) {
    for (const JsonProblem& p : parsed.problems) {
      report->add({source, 0}, path + "." + p.key_path, "given twice in the value");
    }
  }
  if (!parsed.complete) {
    const size_t first = text.find_first_not_of(" \t");
    const bool meant_json = first != std::string::npos &&
                            std::string_view("[{\"").find(text[first]) != std::string::npos;
    if (meant_json) {
      report->add({source, 0}, path, "the value is not valid JSON: " + parsed.problems[0].text);
    }
    return plain;
  }
  set_source(&parsed.root, source);
  if (takes_plain_text(field) && parsed.root.kind != JsonKind::kString &&
      parsed.root.kind != JsonKind::kNull) {
    return plain;
  }
  return std::move(parsed.root);
}

JsonNode make_object(int source) {
  JsonNode node;
  node.kind = JsonKind::kObject;
  node.source = source;
  return node;
}

// Objects are merged key by key, so that one key of a section can be set; all else is replaced.
void merge(JsonNode* target, JsonNode value) {
  if (target->kind != JsonKind::kObject || value.kind != JsonKind::kObject) {
    *target = std::move(value);
    return;
  }
  for (JsonMember& member : value.members) {
    if (JsonMember* old = target->find(member.key)) {
      old->source = member.source;
      old->line = 0;
      merge(&old->value, std::move(member.value));
    } else {
      target->members.push_back(std::move(member));
    }
  }
}

class Placer {
 public:
  Placer(int source, std::string path, ProblemReport* report)
      : source_(source), path_(std::move(path)), report_(report) {}

  void place(JsonNode* node, const std::vector<Step>& steps, JsonNode value) {
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      const bool last = i + 1 == steps.size();
      if (node->kind != JsonKind::kObject)
        return refuse("nothing can be set inside " + describe(*node));
      if (last && step.indices.empty() && value.kind == JsonKind::kNull) {
        return remove(node, step.key);
      }
      JsonMember* member = node->find(step.key);
      if (member == nullptr) {
        node->members.push_back({step.key, 0, source_, make_object(source_)});
        member = &node->members.back();
        if (!step.indices.empty()) member->value.kind = JsonKind::kArray;
      }
      if (last) {
        member->source = source_;
        member->line = 0;
      }
      node = &member->value;
      for (const size_t index : step.indices) {
        node = element(node, index);
        if (node == nullptr) return;
      }
    }
    merge(node, std::move(value));
  }

 private:
  // The element, or a new one right after the last.
  JsonNode* element(JsonNode* array, size_t index) {
    if (array->kind != JsonKind::kArray) {
      refuse("an index needs an array, not " + describe(*array));
      return nullptr;
    }
    if (index > array->items.size()) {
      refuse("there is no element " + std::to_string(index) + ": the array has " +
             std::to_string(array->items.size()));
      return nullptr;
    }
    if (index == array->items.size()) array->items.push_back(make_object(source_));
    return &array->items[index];
  }

  // null takes the key out again, which gives its default.
  static void remove(JsonNode* object, const std::string& key) {
    std::erase_if(object->members, [&](const JsonMember& member) { return member.key == key; });
  }

  void refuse(const std::string& text) { report_->add({source_, 0}, path_, text); }

  int source_;
  std::string path_;
  ProblemReport* report_;
};

}  // namespace

void apply_override(const std::string& text, int source, JsonNode* root, ProblemReport* report) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    report->add({source, 0}, "", "'" + text + "' is not KEY=VALUE, such as training.max_steps=100");
    return;
  }
  const std::string path = text.substr(0, equals);
  const std::vector<Step> steps = split_path(path);
  if (steps.empty()) {
    report->add({source, 0}, "",
                "'" + path + "' is not a key path, such as optimizer.learning_rate");
    return;
  }
  const Field* field = find_field(steps);
  const bool sound = !report->has(path);
  JsonNode value = read_override_value(text.substr(equals + 1), field, source, path, report);
  if (sound && report->has(path)) return;  // no value was understood
  if (field == nullptr && value.kind == JsonKind::kNull)
    value.kind = JsonKind::kBool;  // still unknown
  Placer(source, path, report).place(root, steps, std::move(value));
}

}  // namespace trainctl
