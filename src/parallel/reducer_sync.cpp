#include "parallel/reducer_sync.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <unordered_map>

#include "parallel/sum_hook.h"
#include "trainctl/base/error.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

using Clock = std::chrono::steady_clock;

// A small first bucket sets off early, while most of the backward pass is still to come.
constexpr double kFirstBucketBytes = 1 << 20;

// Note [Bucket layout]: sums over three and more ranks depend on how gradients lie in buckets, so a
// layout that followed the order in which gradients came (as Python's DDP rebuilds it after the
// first step) would not survive a resume bit for bit. Parameters are given in reverse, which is
// nearly the order in which their gradients come, and the buckets are rebuilt once before the first
// step, after which Reducer leaves them alone; never rebuilt, it would remember every gradient.
class ReducerSync final : public GradientSync {
 public:
  ReducerSync(const std::vector<NamedParameter>& parameters,
              const c10::intrusive_ptr<c10d::ProcessGroup>& group,
              const c10::intrusive_ptr<c10d::Backend>& backend, const ParallelConfig& config,
              Progress& progress)
      : parameters_(parameters.rbegin(), parameters.rend()),
        find_unused_(config.find_unused_parameters),
        progress_(progress) {
    std::vector<at::Tensor> tensors;
    std::unordered_map<size_t, std::string> names;
    for (const NamedParameter& parameter : parameters_) {
      names[tensors.size()] = parameter.name;
      tensors.push_back(parameter.tensor);
    }
    const double cap_bytes = config.bucket_mb * (1 << 20);
    const auto cap = static_cast<size_t>(std::max(cap_bytes, 1.0));
    const auto first_cap = static_cast<size_t>(std::min(kFirstBucketBytes, cap_bytes));
    const std::vector<bool> sparse(tensors.size(), false);
    auto buckets =
        std::get<0>(c10d::compute_bucket_assignment_by_size(tensors, {first_cap, cap}, sparse));
    reducer_ = std::make_shared<c10d::Reducer>(
        tensors, std::move(buckets), group, sparse, static_cast<int64_t>(cap), find_unused_,
        /*gradient_as_bucket_view=*/true, std::move(names), static_cast<int64_t>(first_cap),
        /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
        /*bucket_bytes_cap_list=*/std::vector<int64_t>());
    reducer_->register_comm_hook(
        make_sum_hook(backend, config.compression, [this] { own_end_ = Clock::now(); }));
    // Reducer tells its logger when other parameters than before are left out, and takes for
    // granted that there is one.
    logger_ = std::make_shared<c10d::Logger>(reducer_);
    reducer_->set_logger(logger_);
    reducer_->push_rebuilt_params_for_all_indices();
    reducer_->rebuild_buckets();
  }

  void backward(const at::Tensor& loss, bool last) override {
    if (!last) {
      loss.backward();
      return;
    }
    own_begin_ = own_end_ = Clock::now();
    require_reach(loss);
    reducer_->prepare_for_forward();
    reducer_->prepare_for_backward({loss});
    progress_.join("sum of gradients");
    loss.backward();
    if (!find_unused_) require_all_gradients();
  }

  double own_seconds() const override {
    return std::chrono::duration<double>(own_end_ - own_begin_).count();
  }

 private:
  // With nothing to differentiate the hooks never fire.
  static void require_reach(const at::Tensor& loss) {
    TORCH_CHECK(loss.requires_grad(), "the loss does not depend on any parameter");
  }

  // Reducer finishes only when every parameter had a gradient in this backward pass. One that had
  // it in an earlier micro-batch only counts as missing too.
  void require_all_gradients() {
    try {
      reducer_->check_finalized();
    } catch (const c10::Error&) {
      std::vector<std::string> names;
      for (const NamedParameter& parameter : parameters_) {
        if (!parameter.tensor.grad().defined()) names.push_back(parameter.name);
      }
      std::reverse(names.begin(), names.end());
      const size_t count = names.size();
      if (count > 4) names.resize(4);
      const std::string which =
          names.empty() ? "a parameter" : join(names, ", ") + (count > 4 ? ", …" : "");
      throw UserError(ExitCode::kTrainingFailed,
                      "the loss does not reach " + which +
                          ", so that the ranks cannot sum its gradient; set "
                          "parallel.find_unused_parameters to true where a model has parameters "
                          "that a step may leave out");
    }
  }

  std::vector<NamedParameter> parameters_;  // last first
  bool find_unused_;
  Progress& progress_;
  Clock::time_point own_begin_, own_end_;
  std::shared_ptr<c10d::Logger> logger_;
  std::shared_ptr<c10d::Reducer> reducer_;  // its hook writes to the members above
};

}  // namespace

std::unique_ptr<GradientSync> make_reducer_sync(const std::vector<NamedParameter>& parameters,
                                                const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                const c10::intrusive_ptr<c10d::Backend>& backend,
                                                const ParallelConfig& config, Progress& progress) {
  return std::make_unique<ReducerSync>(parameters, group, backend, config, progress);
}

}  // namespace trainctl
