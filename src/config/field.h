// The description of a config field, from which everything else is made: reading, writing,
// defaults, the starter, the JSON Schema and the documentation. The tables themselves are in
// fields*.cpp.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "trainctl/config/config.h"

namespace trainctl {

struct EnumValue {
  const char* name;
  int value;
  const char* doc;
};

// A value that is understood but refused: one that a later version brings, or another tool's word.
struct RefusedValue {
  const char* name;
  const char* why;
  bool later = false;  // a later version brings it
};

struct EnumNames {
  std::vector<EnumValue> values;
  std::vector<RefusedValue> refused;
  const char* name_of(int value) const;
};

template <class E>
const EnumNames& enum_names();  // specialised for every enum in enum_names.cpp

struct EnumSlot {
  void* at;
  int (*get)(const void*);
  void (*set)(void*, int);
  const EnumNames* names;
};

// Where a field's value lies in its struct. Reading and writing visit this.
using Slot = std::variant<bool*, int64_t*, double*, std::string*, std::optional<int64_t>*,
                          std::optional<double>*, Interval*, Toggle*, std::vector<std::string>*,
                          std::vector<double>*, EnumSlot>;

struct Table;

// A list of structs, such as optimizer.groups.
struct StructList {
  const Table& (*table)() = nullptr;
  size_t (*size)(const void* list) = nullptr;
  void* (*append)(void* list) = nullptr;
  const void* (*at)(const void* list, size_t index) = nullptr;
};

// What a field with a value of its own depends on.
struct Condition {
  bool (*holds)(const Config&) = nullptr;
  const char* text = nullptr;        // "model.type is gpt"
  const char* depends_on = nullptr;  // "model.type": when that is wrong, nothing can be said
};

// What to say of a value given where the field has no effect.
enum class Misfit {
  kRefuse,  // it contradicts what else was asked for
  kWarn     // the setting of something not in use, as left behind when a type is changed
};

enum class StringRule { kAny, kNotEmpty, kName, kDevice, kPath };

struct Field {
  const char* key = "";
  const char* doc = "";
  const char* unit_text = "";
  void* (*member)(void* owner) = nullptr;
  Slot (*slot)(void* member) = nullptr;    // a value…
  const Table& (*section)() = nullptr;     // …or a nested section…
  StructList list;                         // …or a list of them
  std::optional<double> minimum, maximum;  // of numbers, and of each element of a list of numbers
  bool minimum_excluded = false, maximum_excluded = false;
  std::optional<size_t> length;               // of a list
  StringRule string_rule = StringRule::kAny;  // of strings, and of each element of a list
  std::vector<const char*> choices;           // of each element of a list of strings
  bool duration = false;                      // a double that may be written "2h"
  const char* automatic = nullptr;            // what the default stands for, when it is worked out
  Condition condition;
  Misfit misfit = Misfit::kWarn;
  const char* harmless =
      nullptr;  // JSON of the value that may be given where the field does not apply
  std::vector<const char*> also_known_as;  // other tools' names, for the hint
  const char* starter_text = nullptr;      // JSON in `config init`; null: only mentioned

  Field& unit(const char* text) {
    unit_text = text;
    return *this;
  }
  Field& at_least(double low) {
    minimum = low;
    return *this;
  }
  Field& at_most(double high) {
    maximum = high;
    return *this;
  }
  Field& range(double low, double high) { return at_least(low).at_most(high); }
  Field& above(double low) {
    minimum_excluded = true;
    return at_least(low);
  }
  Field& below(double high) {
    maximum_excluded = true;
    return at_most(high);
  }
  Field& elements(size_t count) {
    length = count;
    return *this;
  }
  Field& rule(StringRule r) {
    string_rule = r;
    return *this;
  }
  Field& one_of(std::vector<const char*> names) {
    choices = std::move(names);
    return *this;
  }
  Field& time() {
    duration = true;
    return *this;
  }
  Field& derived(const char* from) {
    automatic = from;
    return *this;
  }
  // `harmless_json`: null for the default.
  Field& only_when(Condition c, Misfit m, const char* harmless_json = nullptr) {
    condition = c;
    misfit = m;
    harmless = harmless_json;
    return *this;
  }
  Field& aka(std::vector<const char*> names) {
    also_known_as = std::move(names);
    return *this;
  }
  Field& starter(const char* json) {
    starter_text = json;
    return *this;
  }

  bool is_section() const { return section != nullptr; }
  bool is_list() const { return list.table != nullptr; }
  Slot slot_in(const void* owner) const { return slot(member(const_cast<void*>(owner))); }
  bool applies(const Config& config) const {
    return condition.holds == nullptr || condition.holds(config);
  }
};

struct Table {
  const char* doc = "";
  std::deque<Field> fields;
  const Field* find(std::string_view key) const;
};

const Table& config_table();  // the whole config; its fields are the sections

const Table& model_table();
const Table& data_table();
const Table& training_table();
const Table& optimizer_table();
const Table& lr_scheduler_table();
const Table& precision_table();
const Table& validation_table();

// --- How the tables are built
// ---------------------------------------------------------------------

namespace field_detail {

template <class T>
struct MemberOf;
template <class S, class M>
struct MemberOf<M S::*> {
  using Owner = S;
  using Type = M;
};

template <auto Member>
void* member_at(void* owner) {
  using Owner = typename MemberOf<decltype(Member)>::Owner;
  return &(static_cast<Owner*>(owner)->*Member);
}

template <class M>
Slot slot_at(void* member) {
  if constexpr (std::is_enum_v<M> && !std::is_same_v<M, Toggle>) {
    return EnumSlot{member,
                    [](const void* at) { return static_cast<int>(*static_cast<const M*>(at)); },
                    [](void* at, int value) { *static_cast<M*>(at) = static_cast<M>(value); },
                    &enum_names<M>()};
  } else {
    return static_cast<M*>(member);
  }
}

}  // namespace field_detail

// Adds a field to the table and returns it, for the rest of its description.
template <auto Member>
Field& add_field(Table& table, const char* key, const char* doc) {
  using M = typename field_detail::MemberOf<decltype(Member)>::Type;
  Field& field = table.fields.emplace_back();
  field.key = key;
  field.doc = doc;
  field.member = field_detail::member_at<Member>;
  field.slot = field_detail::slot_at<M>;
  return field;
}

template <auto Member>
Field& add_section(Table& table, const char* key, const Table& (*section)()) {
  Field& field = table.fields.emplace_back();
  field.key = key;
  field.doc = section().doc;
  field.member = field_detail::member_at<Member>;
  field.section = section;
  return field;
}

template <auto Member>
Field& add_list(Table& table, const char* key, const Table& (*element)(), const char* doc) {
  using List = typename field_detail::MemberOf<decltype(Member)>::Type;
  Field& field = table.fields.emplace_back();
  field.key = key;
  field.doc = doc;
  field.member = field_detail::member_at<Member>;
  field.list = {element, [](const void* list) { return static_cast<const List*>(list)->size(); },
                [](void* list) -> void* { return &static_cast<List*>(list)->emplace_back(); },
                [](const void* list, size_t i) -> const void* {
                  return &(*static_cast<const List*>(list))[i];
                }};
  return field;
}

// Calls `visit(path, field, owner)` for every field of `config` that holds a value or is a list, in
// the order of the tables; "optimizer.groups" is visited as one.
template <class Visitor>
void for_each_field(const Table& table, const std::string& prefix, const void* owner,
                    Visitor&& visit) {
  for (const Field& field : table.fields) {
    const std::string path = prefix.empty() ? field.key : prefix + "." + field.key;
    if (field.is_section()) {
      for_each_field(field.section(), path, field.member(const_cast<void*>(owner)), visit);
    } else {
      visit(path, field, owner);
    }
  }
}

}  // namespace trainctl
