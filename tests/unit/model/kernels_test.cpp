// The CPU kernels, for every instruction set that this processor has.
#include "model/ops/kernels/kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace trainctl {
namespace {

using kernels::Bf16;

class EachInstructionSet : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    set_ = kernels::named(GetParam());
    if (set_ == nullptr) GTEST_SKIP() << "this processor has no " << GetParam();
  }
  const kernels::Kernels* set_ = nullptr;
};

struct Shape {
  int64_t m, n, k;
};
// Tails of every kind: rows, columns, a k beyond one panel.
const std::vector<Shape> kShapes = {{1, 16, 1},    {7, 16, 3},    {13, 33, 9},    {64, 96, 32},
                                    {25, 130, 70}, {200, 48, 17}, {30, 272, 257}, {19, 64, 1500}};

at::Tensor padded_result(const Shape& s) {
  const int64_t stride = (s.n + 15) / 16 * 16;
  return at::full({s.m, stride}, 0.5, at::kFloat);
}

TEST_P(EachInstructionSet, Fp32ProductsEqualAten) {
  std::vector<float> buffer(static_cast<size_t>(kernels::kProductBuffer));
  for (const Shape& s : kShapes) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        for (const bool accumulate : {false, true}) {
          const at::Tensor a = at::randn({a_transposed ? s.k : s.m, a_transposed ? s.m : s.k});
          const at::Tensor b = at::randn({b_transposed ? s.n : s.k, b_transposed ? s.k : s.n});
          const at::Tensor c = padded_result(s);
          kernels::Product<float> p{};
          p.m = s.m, p.n = s.n, p.k = s.k;
          p.a = a.const_data_ptr<float>(), p.a_stride = a.size(1), p.a_transposed = a_transposed;
          p.b = b.const_data_ptr<float>(), p.b_stride = b.size(1), p.b_transposed = b_transposed;
          p.c32 = c.mutable_data_ptr<float>(), p.c_stride = c.size(1), p.accumulate = accumulate;
          set_->product_fp32(p, buffer.data());
          const at::Tensor expected = at::mm((a_transposed ? a.t() : a).to(at::kDouble),
                                             (b_transposed ? b.t() : b).to(at::kDouble)) +
                                      (accumulate ? 0.5 : 0.0);
          EXPECT_LT((c.narrow(1, 0, s.n) - expected).abs().max().item<double>(),
                    1e-5 * (10 + static_cast<double>(s.k) / 10.0))
              << s.m << " " << s.n << " " << s.k << " " << a_transposed << b_transposed
              << accumulate;
        }
      }
    }
  }
}

class EachWithBf16Products : public EachInstructionSet {};

TEST_P(EachWithBf16Products, SumInFp32) {
  std::vector<float> buffer(static_cast<size_t>(kernels::kProductBuffer));
  for (const Shape& s : kShapes) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        // Rows are padded to an even length with something finite, as the contract says.
        const int64_t k_row = s.k + s.k % 2;
        const at::Tensor a_full =
            at::randn({a_transposed ? s.k : s.m, a_transposed ? s.m : k_row}).to(at::kBFloat16);
        const at::Tensor b_full =
            at::randn({b_transposed ? s.n : s.k, b_transposed ? k_row : s.n}).to(at::kBFloat16);
        const at::Tensor a = a_transposed ? a_full.t() : a_full.narrow(1, 0, s.k);
        at::Tensor b = b_transposed ? b_full.narrow(1, 0, s.k).t() : b_full;
        if (s.k % 2 == 1 && !a_transposed && b_transposed) b_full.narrow(1, s.k, 1).zero_();
        const at::Tensor c = padded_result(s);
        kernels::Product<Bf16> p{};
        p.m = s.m, p.n = s.n, p.k = s.k;
        p.a = static_cast<const Bf16*>(a_full.const_data_ptr()), p.a_stride = a_full.size(1);
        p.b = static_cast<const Bf16*>(b_full.const_data_ptr()), p.b_stride = b_full.size(1);
        p.a_transposed = a_transposed, p.b_transposed = b_transposed;
        p.c32 = c.mutable_data_ptr<float>(), p.c_stride = c.size(1);
        set_->product_bf16(p, buffer.data());
        const at::Tensor expected = at::mm(a.to(at::kDouble), b.to(at::kDouble));
        EXPECT_LT((c.narrow(1, 0, s.n) - expected).abs().max().item<double>(),
                  1e-5 * (10 + static_cast<double>(s.k) / 10.0))
            << s.m << " " << s.n << " " << s.k << " " << a_transposed << b_transposed;
      }
    }
  }
}

// A bf16 value's neighbours are 2^-8 of it apart.
TEST_P(EachInstructionSet, ActivationsRoundAsAtenDoes) {
  const at::Tensor in = at::linspace(-9, 9, 16 * 400).to(at::kBFloat16), out = at::empty_like(in);
  for (const bool tanh_form : {false, true}) {
    kernels::ActivationForward<Bf16> a{};
    a.in = static_cast<const Bf16*>(in.const_data_ptr());
    a.kind = tanh_form ? kernels::ActivationKind::kGeluTanh : kernels::ActivationKind::kGelu;
    a.out = static_cast<Bf16*>(out.mutable_data_ptr());
    a.width = 16;
    set_->bf16.activation_forward(a, 0, 400);
    const at::Tensor expected = at::gelu(in.to(at::kDouble), tanh_form ? "tanh" : "none");
    const at::Tensor allowed = expected.abs() / 256 + 1e-6;
    EXPECT_TRUE((out.to(at::kDouble) - expected).abs().le(allowed).all().item<bool>());
  }
}

TEST_P(EachInstructionSet, DropoutKeepsItsShareWithoutPatterns) {
  const int64_t rows = 4000, width = 256;
  const at::Tensor ones = at::ones({rows, width}), out = at::empty_like(ones);
  for (const double p : {0.1, 0.5, 0.9}) {
    kernels::BranchBackward<float> b{};
    b.dx = ones.const_data_ptr<float>();
    b.branch_grad = out.mutable_data_ptr<float>();
    b.width = width;
    b.dropout = {static_cast<uint32_t>(p * 4294967296.0), static_cast<float>(1 / (1 - p)), 123,
                 456};
    set_->fp32.branch_backward(b, 0, rows);
    const at::Tensor kept = out.ne(0).to(at::kDouble);
    const double sigma = std::sqrt(p * (1 - p) / static_cast<double>(rows * width));
    EXPECT_NEAR(kept.mean().item<double>(), 1 - p, 5 * sigma);
    EXPECT_FLOAT_EQ(out.max().item<float>(), static_cast<float>(1 / (1 - p)));
    // Neighbours in a row, in a column, and half a row away know nothing of each other.
    const at::Tensor centred = kept - kept.mean();
    for (const auto& [down, right] : {std::pair{0, 1}, {1, 0}, {0, 128}}) {
      const at::Tensor here = centred.narrow(0, 0, rows - down).narrow(1, 0, width - right);
      const at::Tensor there = centred.narrow(0, down, rows - down).narrow(1, right, width - right);
      const double correlation = (here * there).mean().item<double>() / (p * (1 - p));
      EXPECT_LT(std::abs(correlation), 5.0 / std::sqrt(static_cast<double>(rows * width)))
          << down << " " << right;
    }
  }
}

TEST_P(EachInstructionSet, AttentionEqualsAten) {
  for (const bool causal : {false, true}) {
    for (const int64_t time : {1, 15, 33, 150}) {
      const int64_t batch = 2, heads = 3, head_width = 16, width = heads * head_width;
      const at::Tensor qkv = at::randn({batch, time, 3 * width});
      const at::Tensor out = at::empty({batch, time, width}),
                       log_sum = at::empty({batch, heads, time});
      kernels::Attention<float> a{};
      a.qkv = qkv.const_data_ptr<float>();
      a.out = out.mutable_data_ptr<float>();
      a.log_sum = log_sum.mutable_data_ptr<float>();
      a.batch = batch, a.time = time, a.heads = heads, a.head_width = head_width, a.causal = causal;
      std::vector<float> buffer(
          static_cast<size_t>(kernels::attention_buffer(time, head_width, false)));
      set_->fp32.attention(a, buffer.data(), 0, batch * heads);
      const auto parts =
          qkv.view({batch, time, 3, heads, head_width}).permute({2, 0, 3, 1, 4}).unbind(0);
      const at::Tensor expected =
          at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, causal)
              .transpose(1, 2)
              .reshape_as(out);
      EXPECT_TRUE(at::allclose(out, expected, 1e-5, 1e-6)) << time << " " << causal;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, EachInstructionSet,
                         testing::Values("generic", "avx2", "avx512", "avx512bf16"),
                         [](const auto& set) { return std::string(set.param); });

INSTANTIATE_TEST_SUITE_P(Kernels, EachWithBf16Products, testing::Values("avx512bf16"),
                         [](const auto& set) { return std::string(set.param); });

}  // namespace
}  // namespace trainctl
