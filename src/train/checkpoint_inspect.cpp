// trainctl checkpoint inspect
#include <fnmatch.h>

#include <algorithm>

#include "train/checkpoint_place.h"
#include "train/tensor_statistics.h"
#include "trainctl/base/strings.h"
#include "trainctl/report/header.h"
#include "trainctl/report/table.h"
#include "trainctl/train/checkpoint_tools.h"

namespace trainctl {
namespace {

using Json = nlohmann::ordered_json;
using Align = TextTable::Align;

struct Inspected {
  StoredCheckpoint checkpoint;
  Json state = Json::object();  // state.json without the config; empty when it cannot be read
  Json config = Json::object();
};

struct TensorRow {
  std::string part, name, type, shape;
  std::vector<int64_t> sizes;
  uint64_t bytes = 0;
  std::optional<TensorStatistics> statistics;
};

Inspected open_for_inspection(const std::string& source) {
  const CheckpointPlace place = find_checkpoints(source);
  // One that was named is shown even when it is damaged.
  Inspected out{place.step ? look_at_checkpoint(*place.step) : open_stored(source, false), {}, {}};
  try {
    const fs::path path = out.checkpoint.path / "state.json";
    Json state = Json::parse(read_regular_file(path, ExitCode::kCheckpoint), nullptr, false);
    if (!state.is_object()) return out;
    out.config = state.value("config", Json::object());
    state.erase("config");
    out.state = std::move(state);
  } catch (const UserError&) {  // among the problems already, which are shown
  }
  return out;
}

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::vector<std::string> parts;
  for (const int64_t size : sizes) parts.push_back(std::to_string(size));
  return "[" + join(parts, ", ") + "]";
}

bool wanted(const std::string& name, const std::vector<std::string>& globs) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
    return ::fnmatch(glob.c_str(), name.c_str(), 0) == 0;
  });
}

std::vector<TensorRow> tensor_rows(const StoredCheckpoint& checkpoint,
                                   const InspectCheckpoint& command) {
  std::vector<TensorRow> rows;
  if (!checkpoint.whole()) return rows;
  for (const std::string part : {kModelStem, kOptimizerStem}) {
    if (command.tensors.empty() && part != "model") continue;
    const TensorFiles tensors = TensorFiles::open(checkpoint.path, part);
    for (const std::string& name : tensors.names()) {
      if (!command.tensors.empty() && !wanted(name, command.tensors)) continue;
      const at::Tensor tensor = tensors.tensor(name);
      TensorRow row{part,
                    name,
                    std::string(safetensors_type_name(tensor)),
                    "",
                    tensor.sizes().vec(),
                    tensor.nbytes(),
                    std::nullopt};
      row.shape = sizes_text(row.sizes);
      if (command.stats) row.statistics = statistics_of(tensor);
      rows.push_back(std::move(row));
    }
  }
  if (rows.empty() && !command.tensors.empty()) {
    throw usage_error("no tensor of '" + checkpoint.path.string() + "' matches --tensors " +
                      join(command.tensors, ", ") + "; --tensors '*' lists all");
  }
  return rows;
}

// "2.1M parameters in 12 tensors, 8.2 MiB, F32"
std::string part_text(const TensorFiles& tensors, const char* what) {
  uint64_t elements = 0, bytes = 0;
  std::vector<std::string> types;
  const std::vector<std::string> names = tensors.names();
  for (const std::string& name : names) {
    const at::Tensor tensor = tensors.tensor(name);
    elements += static_cast<uint64_t>(tensor.numel());
    bytes += tensor.nbytes();
    const std::string type(safetensors_type_name(tensor));
    if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
  }
  return human_count(static_cast<double>(elements)) + " " + what + " in " +
         count_text(names.size(), "tensor") + ", " + human_bytes(bytes) + ", " + join(types, " ");
}

std::string value_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

HeaderLines summary_lines(const Inspected& one) {
  const StoredCheckpoint& checkpoint = one.checkpoint;
  HeaderLines lines = {
      {"", checkpoint.path.string()},
      {"step", std::to_string(checkpoint.step)},
      {"state", checkpoint.whole() ? "complete (checkpoint verify reads every byte)" : "damaged"}};
  for (const std::string& problem : checkpoint.problems) lines.emplace_back("problem", problem);
  lines.emplace_back("written", age_text(checkpoint.modified) + " ago by trainctl " +
                                    checkpoint.trainctl_version + ", format " +
                                    std::to_string(checkpoint.format_version));
  lines.emplace_back("size", human_bytes(checkpoint.bytes));
  if (checkpoint.validation_loss) {
    lines.emplace_back("validation loss", short_number(*checkpoint.validation_loss));
  }
  if (checkpoint.whole()) {
    lines.emplace_back("model",
                       part_text(TensorFiles::open(checkpoint.path, kModelStem), "parameters"));
    lines.emplace_back("optimizer",
                       part_text(TensorFiles::open(checkpoint.path, kOptimizerStem), "values"));
  }
  return lines;
}

std::string files_text(const StoredCheckpoint& checkpoint) {
  TextTable table({{"file"}, {"bytes", Align::kRight}, {"xxh3"}});
  for (const StoredFile& file : checkpoint.files) {
    table.add_row({file.name, std::to_string(file.written.bytes), to_hex(file.written.xxh3)});
  }
  return table.empty() ? "" : "\nfiles\n" + table.text();
}

std::string tensors_text(const std::vector<TensorRow>& rows, bool stats) {
  std::vector<TextTable::Column> columns = {
      {"tensor"}, {"type"}, {"shape"}, {"bytes", Align::kRight}};
  if (stats) {
    for (const char* title : {"min", "max", "mean", "norm", "NaN", "inf"}) {
      columns.push_back({title, Align::kRight});
    }
  }
  TextTable table(columns);
  for (const TensorRow& row : rows) {
    std::vector<std::string> cells = {printable_tensor_name(row.name), row.type, row.shape,
                                      std::to_string(row.bytes)};
    if (row.statistics) {
      const TensorStatistics& s = *row.statistics;
      for (const double value : {s.min, s.max, s.mean, s.norm})
        cells.push_back(short_number(value));
      cells.push_back(std::to_string(s.nan_count));
      cells.push_back(std::to_string(s.infinite_count));
    }
    table.add_row(std::move(cells));
  }
  return table.empty() ? "" : "\ntensors\n" + table.text();
}

// One line per key of the state, and one per section of the config.
std::string object_text(const std::string& title, const Json& object) {
  HeaderLines lines = {{"", title}};
  for (const auto& [key, value] : object.items()) lines.emplace_back(key, value_text(value));
  return object.empty() ? "" : "\n" + format_header(lines);
}

Json tensors_json(const std::vector<TensorRow>& rows) {
  Json out = Json::array();
  for (const TensorRow& row : rows) {
    Json line = {{"part", row.part},
                 {"name", row.name},
                 {"type", row.type},
                 {"shape", row.sizes},
                 {"bytes", row.bytes}};
    if (row.statistics) {
      const TensorStatistics& s = *row.statistics;
      line["min"] = s.min, line["max"] = s.max, line["mean"] = s.mean, line["norm"] = s.norm;
      line["nan"] = s.nan_count, line["inf"] = s.infinite_count;
    }
    out.push_back(std::move(line));
  }
  return out;
}

std::string inspected_json(const Inspected& one, const std::vector<TensorRow>& rows) {
  const StoredCheckpoint& checkpoint = one.checkpoint;
  Json out = {{"path", checkpoint.path.string()},
              {"step", checkpoint.step},
              {"complete", checkpoint.whole()},
              {"problems", checkpoint.problems},
              {"format_version", checkpoint.format_version},
              {"trainctl_version", checkpoint.trainctl_version},
              {"run_id", checkpoint.run_id},
              {"bytes", checkpoint.bytes},
              {"modified", checkpoint.modified},
              {"validation_loss", nullptr},
              {"files", Json::array()}};
  if (checkpoint.validation_loss) out["validation_loss"] = json_number(*checkpoint.validation_loss);
  for (const StoredFile& file : checkpoint.files) {
    out["files"].push_back(
        {{"file", file.name}, {"bytes", file.written.bytes}, {"xxh3", to_hex(file.written.xxh3)}});
  }
  out["tensors"] = tensors_json(rows);
  out["state"] = one.state;
  out["config"] = one.config;
  return json_text(out);
}

}  // namespace

ExitCode inspect_checkpoint_command(const InspectCheckpoint& command, const RunHost& host) {
  const Inspected one = open_for_inspection(command.source);
  const std::vector<TensorRow> rows = tensor_rows(one.checkpoint, command);
  if (command.json) {
    host.print(inspected_json(one, rows));
  } else if (!command.tensors.empty()) {
    if (!rows.empty()) host.print(tensors_text(rows, command.stats).substr(1));
  } else {
    host.print(format_header(summary_lines(one)) + files_text(one.checkpoint) +
               tensors_text(rows, command.stats) + object_text("training state", one.state) +
               object_text("config", one.config));
  }
  if (one.checkpoint.whole()) return ExitCode::kOk;
  throw checkpoint_error(one.checkpoint.path.string() + ": " + damage_text(one.checkpoint) +
                         "; use another step-N beside it");
}

}  // namespace trainctl
