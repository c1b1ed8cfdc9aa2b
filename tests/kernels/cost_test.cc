// Costs of kernels that only move and add numbers, written out for small shapes.

#include "kernels/attention_merge.h"
#include "kernels/attention_of_tile.h"
#include "kernels/classifier.h"
#include "kernels/codec.h"
#include "kernels/columns.h"
#include "kernels/dispatch.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/head_norm.h"
#include "kernels/norm.h"
#include "kernels/orthonormalize.h"
#include "kernels/rmsnorm.h"
#include "kernels/rotary.h"
#include "kernels/router.h"
#include "kernels/swiglu.h"
#include "tests/catch.h"

namespace ladder {
namespace {

// Costs look at shapes and dtypes alone.
ConstTensorView view(const Shape& shape, DType dtype = DType::fp32) {
  static const double nothing = 0;
  return {&nothing, dtype, DeviceType::cpu, shape};
}

void check_cost(const Cost& cost, double flops, double read, double written) {
  CHECK(cost.product_flops == 0);
  CHECK(cost.other_flops == flops);
  CHECK(cost.bytes_read == read);
  CHECK(cost.bytes_written == written);
}

TEST_CASE("elementwise kernels and sums: each argument once") {
  check_cost(fill_cost(view({10})), 0, 0, 40);
  check_cost(add_cost(view({10})), 10, 80, 40);
  check_cost(scale_cost(view({10}, DType::fp64)), 10, 80, 80);
  check_cost(add_scaled_cost(view({10}, DType::fp64)), 20, 160, 80);
  check_cost(cast_cost(view({10}, DType::bf16), view({10})), 0, 40, 20);
  check_cost(fill_normal_cost(view({10})), 10, 0, 40);
  check_cost(sum_cost(view({10})), 10, 40, 0);
  check_cost(squared_norms_cost({view({10}), view({3})}), 26, 52, 0);
}

TEST_CASE("codecs: the words, the numbers, and with feedback what is held, read and written") {
  const ConstTensorView in = view({256}), words = view({65}, DType::int32);
  check_cost(encode_cost(words, {}, in), 512, 1024, 260);
  check_cost(encode_cost(words, in, in), 512 + 768, 2048, 260 + 1024);
  check_cost(decode_sum_cost(in, view({3, 65}, DType::int32)), 5 * 256, 780, 1024);
}

TEST_CASE("orthonormalize: two products for each pair of rows, the length, the factor") {
  check_cost(orthonormalize_cost(view({4, 10})), 13 * 40, 160, 160);
}

TEST_CASE("attention in blocks: 2 queries see 4 keys, or 1 and 2 of 2, in 2 sequences of 2 heads") {
  const auto out = view({2, 3, 4}), lse = view({2, 2, 3}), qkv = view({2, 3, 12});
  const auto kv = view({2, 5, 8});
  const Cost whole = attention_of_tile_forward_cost(out, lse, qkv, kv, {1, 2, 4});
  CHECK(whole.product_flops == 2 * 2 * (2 * 8 * 4));
  CHECK(whole.other_flops == 2 * 2 * 8);
  CHECK(whole.bytes_read == 4 * (72 + 80));
  CHECK(whole.bytes_written == 4 * (24 + 12));
  const Cost causal =
      attention_of_tile_backward_cost(out, kv, lse, out, lse, qkv, kv, {1, 2, 2, true});
  CHECK(causal.product_flops == 5 * 2 * (2 * 3 * 4));
  CHECK(causal.other_flops == 2 * 2 * 3);
  CHECK(causal.bytes_read == 4 * (24 + 80 + 12 + 24 + 12 + 72 + 80));
  CHECK(causal.bytes_written == 4 * (24 + 80));
  check_cost(attention_merge_cost(out, lse), 3 * 24 + 6 * 12, 4 * (48 + 24), 4 * (24 + 12));
  check_cost(attention_row_dot_cost(lse, out), 48, 4 * 48, 4 * 12);
  check_cost(copy_columns_cost(view({2, 9}), view({2, 5}, DType::bf16), 3), 0, 12, 24);
}

TEST_CASE("attention with a key head for two query heads: all operations, half of the keys") {
  using enum AttentionMask;
  const auto out = view({2, 3, 4}), lse = view({2, 2, 3});
  const auto shared = view({2, 3, 8}), kv = view({2, 5, 4});
  const Cost forward = attention_forward_cost(out, lse, shared, causal);
  CHECK(forward.product_flops == 2 * 2 * (24 * 1.5));
  CHECK(forward.other_flops == 12 * 1.5);
  CHECK(forward.bytes_read == 4 * 48);
  CHECK(forward.bytes_written == 4 * (24 + 12));
  const Cost backward = attention_backward_cost(shared, out, out, lse, shared, causal);
  CHECK(backward.product_flops == 5 * 2 * (24 * 1.5));
  CHECK(backward.other_flops == 12 * 1.5);
  CHECK(backward.bytes_read == 4 * (24 + 24 + 12 + 48));
  CHECK(backward.bytes_written == 4 * 48);
  const Cost whole = attention_of_tile_forward_cost(out, lse, shared, kv, {1, 2, 4});
  CHECK(whole.product_flops == 2 * 2 * (2 * 8 * 4));
  CHECK(whole.other_flops == 2 * 2 * 8);
  CHECK(whole.bytes_read == 4 * (48 + 40));
  const Cost tile =
      attention_of_tile_backward_cost(out, kv, lse, out, lse, shared, kv, {1, 2, 2, true});
  CHECK(tile.product_flops == 5 * 2 * (2 * 3 * 4));
  CHECK(tile.bytes_read == 4 * (24 + 40 + 12 + 24 + 12 + 48 + 40));
  CHECK(tile.bytes_written == 4 * (24 + 40));
}

TEST_CASE("attention without a mask computes and exponentiates twice as many scores") {
  using enum AttentionMask;
  const auto out = view({2, 3, 4}), lse = view({2, 2, 3}), qkv = view({2, 3, 12});
  const Cost half = attention_forward_cost(out, lse, qkv, causal);
  const Cost all = attention_forward_cost(out, lse, qkv, none);
  CHECK(all.product_flops == 2 * half.product_flops);
  CHECK(all.other_flops == 2 * half.other_flops);
  CHECK(all.bytes() == half.bytes());
  CHECK(attention_backward_cost(qkv, out, out, lse, qkv, none).product_flops ==
        2 * attention_backward_cost(qkv, out, out, lse, qkv, causal).product_flops);
}

TEST_CASE("positions are added to 2 sequences of 3 tokens, 4 numbers each") {
  check_cost(position_forward_cost(view({2, 3, 4}), view({3, 4})), 24, 96 + 48, 96);
  check_cost(position_backward_cost(view({3, 4}), view({2, 3, 4})), 24, 96 + 48, 48);
}

TEST_CASE("RMSNorm of 3 rows of 5: rows, a statistic of each, and the weight once") {
  const ConstTensorView rows = view({3, 5}, DType::bf16), weight = view({5}, DType::bf16);
  const ConstTensorView rstd = view({3}), dweight = view({5});
  check_cost(rmsnorm_forward_cost(rows, rstd, weight), 4 * 15, 30 + 10, 30 + 12);
  check_cost(rmsnorm_backward_cost(rows, dweight, weight, rstd), 10 * 15, 90 + 20 + 10 + 12,
             30 + 20);
}

TEST_CASE("SwiGLU of 3 rows: 10 columns become 5, and gradients of 5 become 10") {
  const ConstTensorView half = view({3, 5}), whole = view({3, 10});
  check_cost(swiglu_forward_cost(half, whole), 5 * 15, 120, 60);
  check_cost(swiglu_backward_cost(whole, half), 11 * 15, 60 + 120, 120);
}

TEST_CASE("the norms of 2 of 5 heads of 4, in 3 rows: the heads are read, saved and written") {
  const ConstTensorView before = view({3, 8}, DType::bf16), weight = view({4}, DType::bf16);
  const ConstTensorView rstd = view({3, 2}), dweight = view({4});
  check_cost(head_norm_forward_cost(before, rstd, weight), 4 * 24, 48 + 8, 2 * 48 + 24);
  check_cost(head_norm_backward_cost(before, dweight, weight, rstd), 10 * 24, 2 * 48 + 16 + 8 + 24,
             48 + 16);
}

TEST_CASE(
    "rotary positions of 2 sequences of 3 tokens: 2 heads of 4, and a table's row a position") {
  const ConstTensorView x = view({2, 3, 20}, DType::bf16), table = view({9, 4});
  check_cost(rotary_cost(x, {1, 2}, table, {}), 3 * 48, 96 + 48, 96);
  check_cost(rotary_cost(x, {1, 2}, table, view({3}, DType::int32)), 3 * 48, 96 + 48 + 12, 96);
  check_cost(rotary_cost(x, {1, 2}, table, view({2, 3}, DType::int32)), 3 * 48, 96 + 96 + 24, 96);
}

TEST_CASE("softmax and its gradient on 5 rows of 7 logits: read once, written once") {
  check_cost(softmax_cross_entropy_cost(view({5}), view({5, 7}), view({5, 7})), 6 * 35, 140 + 20,
             140 + 20);
}

TEST_CASE("a router of 6 tokens and 4 experts, 2 of which a token goes to; and their assignments") {
  const ConstTensorView p = view({6, 4}), rows = view({6}), weights = view({6, 2});
  const ConstTensorView experts = view({6, 2}, DType::int32), fractions = view({3, 4});
  check_cost(router_forward_cost(p, rows, experts, weights), 7 * 24, 96, 96 + 24 + 48 + 48);
  check_cost(router_backward_cost(p, p, rows, experts, weights, fractions), 9 * 24 + 5 * 12,
             96 + 24 + 48 + 48 + 48 + 48, 96);
  check_cost(router_statistics_cost(view({3, 6}), p, rows, fractions), 5 * 24, 96 + 24 + 48, 72);
  const ConstTensorView out = view({6, 10}), in = view({12, 10});
  check_cost(gather_rows_cost(in, view({12}, DType::int32)), 0, 480 + 48, 480);
  check_cost(sum_assignments_cost(out, in, experts), 120, 480 + 48, 240);
  check_cost(combine_forward_cost(out, in, experts, weights), 240 + 60, 240 + 480 + 96, 240);
  check_cost(combine_backward_cost(in, out, experts, weights), 360, 240 + 480 + 96, 480 + 48);
}

TEST_CASE("the losses alone: a logarithm and a subtraction for each row") {
  check_cost(cross_entropy_loss_cost(view({5})), 10, 40, 20);
}

}  // namespace
}  // namespace ladder
