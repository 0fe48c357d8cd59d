#include "parallel/sum_hook.h"

namespace trainctl {
namespace {

using Future = c10::intrusive_ptr<c10::ivalue::Future>;

class SumHook : public c10d::CommHookInterface {
 public:
  SumHook(const c10::intrusive_ptr<c10d::Backend>& backend, std::function<void()> on_last_bucket)
      : backend_(backend), on_last_bucket_(std::move(on_last_bucket)) {}

  Future runHook(c10d::GradBucket& bucket) override {
    if (bucket.isLast()) on_last_bucket_();
    return start(bucket.getBufferRef());
  }

  at::Tensor parseHookResult(const c10::IValue& result) override {
    return c10d::detail::parseCppCommHookResult(result);
  }

 protected:
  virtual Future start(const at::Tensor& bucket) { return all_reduce(bucket); }

  Future all_reduce(const at::Tensor& tensor) {
    std::vector<at::Tensor> tensors = {tensor};
    return backend_->allreduce(tensors)->getFuture();
  }

  int64_t ranks() const { return backend_->getSize(); }

 private:
  c10::intrusive_ptr<c10d::Backend> backend_;
  std::function<void()> on_last_bucket_;
};

// Half the bytes on the way. The values are divided before and multiplied after, so that the sum of
// many ranks does not leave fp16's range where the single values do not.
class CompressedSumHook final : public SumHook {
 public:
  CompressedSumHook(const c10::intrusive_ptr<c10d::Backend>& backend, at::ScalarType type,
                    std::function<void()> on_last_bucket)
      : SumHook(backend, std::move(on_last_bucket)), type_(type) {}

 protected:
  Future start(const at::Tensor& bucket) override {
    const auto count = static_cast<double>(ranks());
    return all_reduce(bucket.div(count).to(type_))
        ->then(
            [bucket, count](c10::ivalue::Future& sum) -> c10::IValue {
              const at::Tensor compressed = c10d::detail::parseCppCommHookResult(sum.value());
              bucket.copy_(compressed).mul_(count);
              return std::vector<at::Tensor>{bucket};
            },
            c10::ListType::create(c10::TensorType::get()));
  }

 private:
  at::ScalarType type_;
};

}  // namespace

std::unique_ptr<c10d::CommHookInterface> make_sum_hook(
    const c10::intrusive_ptr<c10d::Backend>& backend, GradientCompression compression,
    std::function<void()> on_last_bucket) {
  switch (compression) {
    case GradientCompression::kNone:
      return std::make_unique<SumHook>(backend, std::move(on_last_bucket));
    case GradientCompression::kBf16:
      return std::make_unique<CompressedSumHook>(backend, at::kBFloat16, std::move(on_last_bucket));
    case GradientCompression::kFp16:
      return std::make_unique<CompressedSumHook>(backend, at::kHalf, std::move(on_last_bucket));
  }
  TORCH_CHECK(false, "compression without a hook");
}

}  // namespace trainctl
