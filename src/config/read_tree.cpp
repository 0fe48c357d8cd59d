#include "config/load_state.h"
#include "config/value.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

class TreeReader {
 public:
  explicit TreeReader(LoadState* state) : state_(state) {}

  void read_object(const Table& table, const JsonNode& object, const std::string& path,
                   void* owner) {
    for (const JsonMember& member : object.members) {
      if (path.empty() && member.key == "$schema") {
        check_schema_key(member);
        continue;
      }
      const std::string key_path = path.empty() ? member.key : path + "." + member.key;
      const Place place{member.source, member.line};
      const Field* field = table.find(member.key);
      if (field == nullptr) {
        state_->report.add(place, key_path, "unknown key" + suggest_key(path, table, member.key));
        continue;
      }
      read_field(*field, member.value, key_path, place, owner);
    }
  }

 private:
  void read_field(const Field& field, const JsonNode& node, const std::string& path,
                  const Place& place, void* owner) {
    void* member = field.member(owner);
    if (field.is_section()) {
      if (expect(JsonKind::kObject, node, path, place, "{ … }")) {
        read_object(field.section(), node, path, member);
      }
      return;
    }
    state_->given[path] = place;
    if (field.is_list()) {
      if (!expect(JsonKind::kArray, node, path, place, "[ { … } ]")) return;
      for (size_t i = 0; i < node.items.size(); ++i) {
        const std::string item_path = path + "[" + std::to_string(i) + "]";
        const JsonNode& item = node.items[i];
        const Place item_place{item.source, item.line};
        void* element = field.list.append(member);
        if (!expect(JsonKind::kObject, item, item_path, item_place, "{ … }")) continue;
        read_object(field.list.table(), item, item_path, element);
      }
      return;
    }
    const std::string wrong = read_value(field, node, owner);
    if (!wrong.empty()) state_->report.add({node.source, node.line}, path, wrong);
  }

  bool expect(JsonKind kind, const JsonNode& node, const std::string& path, const Place& place,
              const char* shape) {
    if (node.kind == kind) return true;
    const std::string wanted = kind == JsonKind::kObject ? "an object " : "an array of objects ";
    state_->report.add(place, path,
                       "must be " + wanted + shape + ", not " + describe(node) +
                           (node.kind == JsonKind::kNull ? "; leave the key out" : ""));
    return false;
  }

  void check_schema_key(const JsonMember& member) {
    if (member.value.kind == JsonKind::kString) return;  // for editors; nothing is fetched
    state_->report.add({member.source, member.line}, "$schema",
                       "must be a string, not " + describe(member.value));
  }

  LoadState* state_;
};

struct Candidate {
  std::string path;
  const Field* field;
};

void collect(const Table& table, const std::string& prefix, std::vector<Candidate>* all) {
  for (const Field& field : table.fields) {
    const std::string path = prefix.empty() ? field.key : prefix + "." + field.key;
    all->push_back({path, &field});
    if (field.is_section()) collect(field.section(), path, all);
    if (field.is_list()) collect(field.list.table(), path + "[]", all);
  }
}

bool known_as(const Field& field, const std::string& key) {
  for (const char* name : field.also_known_as) {
    if (key == name) return true;
  }
  return false;
}

std::string did_you_mean(const std::string& path) { return "; did you mean " + path + "?"; }

}  // namespace

std::string suggest_key(const std::string& section_path, const Table& table,
                        const std::string& key) {
  const std::string prefix = section_path.empty() ? "" : section_path + ".";
  for (const Field& field : table.fields) {
    if (known_as(field, key)) return did_you_mean(prefix + field.key);
  }
  std::vector<Candidate> all;
  collect(config_table(), "", &all);
  // The same key elsewhere: in a section of that very kind of thing the user just took the wrong
  // one.
  std::vector<std::string> same, other_name, names;
  for (const Candidate& c : all) {
    if (c.path.find("[]") != std::string::npos) continue;
    if (c.field->key == key) same.push_back(c.path);
    if (known_as(*c.field, key)) other_name.push_back(c.path);
  }
  std::vector<std::string> own;
  for (const Field& field : table.fields) own.emplace_back(field.key);
  const auto near_own = nearest(key, own);
  // "interval" is a key of several sections; the one whose own name is close comes first.
  if (near_own && same.size() != 1) return did_you_mean(prefix + *near_own);
  if (!same.empty()) return did_you_mean(join(same, " or "));
  if (near_own) return did_you_mean(prefix + *near_own);
  if (!other_name.empty()) return did_you_mean(join(other_name, " or "));
  for (const Candidate& c : all) {
    if (c.path.find("[]") == std::string::npos && !c.field->is_section())
      names.emplace_back(c.field->key);
  }
  if (const auto near = nearest(key, names)) {
    for (const Candidate& c : all) {
      if (c.field->key == *near) return did_you_mean(c.path);
    }
  }
  return "; " + (section_path.empty() ? std::string("a config") : section_path) + " has " +
         join(own, ", ");
}

void read_tree(const JsonNode& root, LoadState* state) {
  if (root.kind != JsonKind::kObject) {
    state->report.add({root.source, root.line}, "",
                      "a config is one JSON object { … }, not " + describe(root));
    return;
  }
  TreeReader(state).read_object(config_table(), root, "", &state->config);
}

}  // namespace trainctl
