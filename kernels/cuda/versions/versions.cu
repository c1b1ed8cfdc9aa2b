#include "kernels/cuda/versions/versions.h"

#include <limits>

#include "kernels/attention.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/versions/attention.h"
#include "kernels/cuda/versions/product.h"

namespace ladder {
namespace {

constexpr size_t kAny = std::numeric_limits<size_t>::max();

template <auto kLaunch>
void product_body(Stream& stream, TensorView c, ConstTensorView a, ConstTensorView b) {
  const auto extent = [](size_t x) { return static_cast<unsigned>(x); };
  kLaunch(stream.native(),
          cuda::Product{c.as<bfloat16>(), a.as<bfloat16>(), b.as<bfloat16>(), extent(c.shape()[0]),
                        extent(c.shape()[1]), extent(a.shape()[1])});
}

cuda::AttentionCall call_of(TensorView out, TensorView logsumexp, ConstTensorView qkv) {
  const Shape& rows = logsumexp.shape();
  const size_t size = out.shape()[2] / rows[1];
  return {out.as<bfloat16>(),
          logsumexp.as<float>(),
          qkv.as<bfloat16>(),
          {rows[2], rows[1], size},
          static_cast<unsigned>(rows[0] * rows[1]),
          cuda::scale_of<float>(size)};
}

void naive_body(Stream& stream, TensorView out, TensorView logsumexp, TensorView scores,
                ConstTensorView qkv) {
  cuda::attention_naive(stream.native(), call_of(out, logsumexp, qkv), scores.as<float>());
}

void tiled_body(Stream& stream, TensorView out, TensorView logsumexp, TensorView /*scores*/,
                ConstTensorView qkv) {
  cuda::attention_tiled(stream.native(), call_of(out, logsumexp, qkv));
}

// Training has this version, and chooses by dtype and head size.
void body_of_training(Stream& stream, TensorView out, TensorView logsumexp, TensorView /*scores*/,
                      ConstTensorView qkv) {
  attention_forward(stream, out, logsumexp, qkv, AttentionMask::causal);
}

constexpr ProductVersion kProducts[] = {
    {"naive", "a thread for each element", 1, product_body<cuda::product_naive>},
    {"tiled", "tiles in shared memory", 1, product_body<cuda::product_tiled>},
    {"vectorized", "8 x 8 elements a thread, packs", 8, product_body<cuda::product_vectorized>},
    {"mma", "tensor cores, copies meanwhile", 8, product_body<cuda::product_mma>},
};

constexpr AttentionVersion kAttentions[] = {
    {"naive", "the whole matrix in memory", DType::bf16, 1, kAny, true, naive_body},
    {"tiled", "online softmax, tiles", DType::bf16, 1, 64, false, tiled_body},
    {"vectorized", "4 x 4 scores a thread, packs (fp32)", DType::fp32, 4, kAny, false,
     body_of_training},
    {"mma", "tensor cores, copies meanwhile", DType::bf16, 8, 128, false, body_of_training},
};

void refuse(const std::string& why) {
  if (!why.empty()) fail(why);
}

}  // namespace

void ProductVersion::run(Stream& stream, TensorView c, ConstTensorView a, ConstTensorView b) const {
  const ArgumentCheck expect("product", stream, "a", a, 2, {DType::bf16});
  const size_t n = b.shape().num_dims() == 2 ? b.shape()[1] : 0;
  expect("b", b, {a.shape()[1], n});
  expect("c", c, {a.shape()[0], n});
  refuse(refusal(a.shape()[0], n, a.shape()[1]));
  const bool aligned =
      cuda::packs_are_aligned<8>(c.as<bfloat16>(), a.as<bfloat16>(), b.as<bfloat16>());
  if (multiple > 1 && !aligned) {
    fail(concat("product: version ", name, " takes matrices that begin at multiples of 16 bytes"));
  }
  body(stream, c, a, b);
}

std::string ProductVersion::refusal(size_t m, size_t n, size_t k) const {
  constexpr size_t kMost = std::numeric_limits<int>::max();
  for (const size_t extent : {m, n, k}) {
    if (extent == 0 || extent > kMost) return concat("product: M, N and K are 1 to ", kMost);
  }
  if (n % multiple == 0 && k % multiple == 0) return "";
  return concat("product: version ", name, " takes N and K that are multiples of ", multiple,
                ", not ", n, " and ", k);
}

void AttentionVersion::run(Stream& stream, TensorView out, TensorView logsumexp, TensorView scores,
                           ConstTensorView qkv) const {
  const ArgumentCheck expect("attention", stream, "out", out, 3, {dtype});
  const Shape rows = attention_rows("attention", out.shape(), logsumexp);
  expect.accumulated("logsumexp", logsumexp, rows);
  expect("qkv", qkv, {rows[0], rows[2], 3 * out.shape()[2]});
  if (needs_scores) expect.accumulated("scores", scores, {rows[0], rows[1], rows[2], rows[2]});
  refuse(refusal(out.shape()[2] / rows[1]));
  if (multiple > 1 && !cuda::packs_are_aligned<16>(static_cast<const char*>(qkv.data()),
                                                   static_cast<const char*>(out.data()))) {
    fail(concat("attention: version ", name, " takes tensors at multiples of 16 bytes"));
  }
  body(stream, out, logsumexp, scores, qkv);
}

std::string AttentionVersion::refusal(size_t head_size) const {
  if (head_size > 0 && head_size <= most_head_size && head_size % multiple == 0) return "";
  const std::string most = most_head_size == kAny ? "" : concat(" up to ", most_head_size);
  return concat("attention: version ", name, " takes heads whose size is a multiple of ", multiple,
                most, ", not ", head_size);
}

std::span<const ProductVersion> product_versions() { return kProducts; }
std::span<const AttentionVersion> attention_versions() { return kAttentions; }

}  // namespace ladder
