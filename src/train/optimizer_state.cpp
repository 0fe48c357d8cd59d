#include "train/optimizer_state.h"

#include <cmath>
#include <set>
#include <sstream>
#include <utility>

#include "trainctl/base/error.h"

namespace trainctl {
namespace {

constexpr const char* kStepName = "step";

std::string entry_name(const std::string& parameter, const std::string& what) {
  return parameter + "." + what;
}

std::string shape_text(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes() << " " << tensor.scalar_type();
  return text.str();
}

at::Tensor checked_entry(const TensorFiles& file, const std::string& name, const at::Tensor& like) {
  if (!file.contains(name)) {
    throw checkpoint_error("optimizer state \"" + name +
                           "\" is not in the checkpoint: it was made with another optimizer.type "
                           "or for another model; use that config, or start with --resume never");
  }
  at::Tensor stored = file.tensor(name);
  if (stored.sizes() != like.sizes() || stored.scalar_type() != like.scalar_type()) {
    throw checkpoint_error("optimizer state \"" + name + "\" is " + shape_text(stored) +
                           " in the checkpoint, but the model needs " + shape_text(like) +
                           "; use the config that the checkpoint was made with");
  }
  return stored;
}

double checked_step(const TensorFiles& file, const std::string& name, const at::Tensor& like) {
  const double step = checked_entry(file, name, like).item<double>();
  if (!std::isfinite(step) || step < 0 || step != std::floor(step)) {
    throw checkpoint_error("optimizer state \"" + name + "\" is " + std::to_string(step) +
                           ", which is no number of steps; the checkpoint is damaged");
  }
  return step;
}

void refuse_left_over_entries(const TensorFiles& file, const std::set<std::string>& used) {
  for (const std::string& name : file.names()) {
    if (used.contains(name)) continue;
    throw checkpoint_error("the checkpoint holds optimizer state \"" + name +
                           "\" that this optimizer does not keep: it was made with another "
                           "optimizer.type or for another model");
  }
}

}  // namespace

std::vector<TensorEntry> optimizer_state(const std::vector<OptimizerBucket>& buckets,
                                         const OptimizerStateLayout& layout,
                                         size_t parameter_count) {
  std::vector<std::vector<TensorEntry>> by_parameter(parameter_count);
  for (const OptimizerBucket& bucket : buckets) {
    // One copy from the device serves all parameters of the bucket.
    const at::Tensor step = layout.counts_steps ? bucket.step().cpu() : at::Tensor();
    for (size_t i = 0; i < bucket.size(); ++i) {
      std::vector<TensorEntry>& entries = by_parameter[bucket.index(i)];
      for (size_t s = 0; s < layout.names.size(); ++s) {
        entries.push_back({entry_name(bucket.name(i), layout.names[s]), bucket.state(s)[i]});
      }
      if (layout.counts_steps) entries.push_back({entry_name(bucket.name(i), kStepName), step});
    }
  }
  std::vector<TensorEntry> result;
  for (std::vector<TensorEntry>& entries : by_parameter) {
    result.insert(result.end(), entries.begin(), entries.end());
  }
  return result;
}

std::vector<OptimizerBucket> load_optimizer_state(const std::vector<OptimizerBucket>& buckets,
                                                  const OptimizerStateLayout& layout,
                                                  const TensorFiles& file) {
  std::set<std::string> used;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // to, from
  std::vector<std::vector<double>> steps(buckets.size());
  for (size_t b = 0; b < buckets.size(); ++b) {
    for (size_t i = 0; i < buckets[b].size(); ++i) {
      for (size_t s = 0; s < layout.names.size(); ++s) {
        const std::string name = entry_name(buckets[b].name(i), layout.names[s]);
        const at::Tensor& to = buckets[b].state(s)[i];
        copies.emplace_back(to, checked_entry(file, name, to));
        used.insert(name);
      }
      if (!layout.counts_steps) continue;
      const std::string name = entry_name(buckets[b].name(i), kStepName);
      steps[b].push_back(checked_step(file, name, buckets[b].step()));
      used.insert(name);
    }
  }
  refuse_left_over_entries(file, used);

  const at::NoGradGuard no_grad;
  for (const auto& [to, from] : copies) to.copy_(from);
  if (!layout.counts_steps) return buckets;
  std::vector<OptimizerBucket> loaded;
  for (size_t b = 0; b < buckets.size(); ++b) {
    std::set<double> distinct(steps[b].begin(), steps[b].end());
    auto value = distinct.begin();
    for (OptimizerBucket& part : buckets[b].split(steps[b])) {
      part.step().fill_(*value++);
      loaded.push_back(std::move(part));
    }
  }
  return loaded;
}

}  // namespace trainctl
