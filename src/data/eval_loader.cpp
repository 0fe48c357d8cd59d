#include <algorithm>

#include "data/batch_rows.h"
#include "trainctl/data/data.h"

namespace trainctl {
namespace {

class OrderedEvalLoader final : public EvalLoader {
 public:
  OrderedEvalLoader(std::shared_ptr<const Dataset> dataset, int64_t batch_size, int64_t max_batches,
                    const WorldShape& world, Device& device)
      : dataset_(std::move(dataset)),
        order_(*dataset_, 0, /*shuffle=*/false),
        batch_size_(batch_size),
        world_(world),
        device_(device),
        next_(world.rank) {
    full_batches_ = (order_.full_size() + batch_size - 1) / batch_size;
    batches_ = full_batches_ + (order_.size() - order_.full_size());
    if (max_batches > 0) batches_ = std::min(batches_, max_batches);
  }

  std::optional<MicroBatch> next() override {
    const int64_t round = next_ / world_.world_size;
    if (round * world_.world_size >= batches_) return std::nullopt;  // for every rank alike
    const int64_t batch = next_;
    next_ += world_.world_size;

    std::vector<int64_t> samples;
    if (batch < batches_) {
      const bool full = batch < full_batches_;
      const int64_t begin = full ? batch * batch_size_ : order_.full_size();
      const int64_t end = full ? std::min(begin + batch_size_, order_.full_size()) : order_.size();
      for (int64_t sample = begin; sample < end; ++sample) samples.push_back(sample);
    }
    const bool padding = samples.empty();
    const int64_t length = dataset_->sample_length(padding ? 0 : samples.front());
    const HostRows rows = read_rows(*dataset_, samples, padding, length, device_);
    return to_micro_batches(rows, batch_size_, device_).front();
  }

 private:
  std::shared_ptr<const Dataset> dataset_;
  SampleOrder order_;
  int64_t batch_size_;
  WorldShape world_;
  Device& device_;
  int64_t next_;  // batch, counted over all ranks
  int64_t full_batches_ = 0, batches_ = 0;
};

}  // namespace

std::unique_ptr<EvalLoader> make_eval_loader(std::shared_ptr<const Dataset> dataset,
                                             int64_t batch_size, int64_t max_batches,
                                             const WorldShape& world, Device& device) {
  return std::make_unique<OrderedEvalLoader>(std::move(dataset), batch_size, max_batches, world,
                                             device);
}

}  // namespace trainctl
