// The kernels of losses, updates and loops over all elements refuse every wrong argument, and the
// message names the argument. All kernels refuse sizes that cannot be.
#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/attention_merge.h"
#include "kernels/attention_of_tile.h"
#include "kernels/classifier.h"
#include "kernels/codec.h"
#include "kernels/columns.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/norm.h"
#include "kernels/orthonormalize.h"
#include "kernels/rmsnorm.h"
#include "kernels/rotary.h"
#include "tests/kernels/arguments.h"

namespace ladder {
namespace {
using namespace testing;

const Kernel kKernels[] = {
    {"softmax_maximum",
     {{"maximum", {2}}, {"logits", {2, 3}, Kind::x, true}},
     1,
     false,
     [](const Views& v) { softmax_maximum(stream(), v[0], v[1]); },
     false},
    {"softmax_exponentials",
     {{"logits", {2, 3}, Kind::x, true},
      {"sum", {2}},
      {"target_logit", {2}},
      {"targets", {2}, Kind::int32},
      {"maximum", {2}}},
     0,
     false,
     [](const Views& v) { softmax_exponentials(stream(), v[0], v[1], v[2], v[3], v[4], 0); },
     false},
    {"cross_entropy",
     {{"losses", {2}},
      {"dlogits", {2, 3}},
      {"exponentials", {2, 3}},
      {"sum", {2}},
      {"target_logit", {2}},
      {"targets", {2}, Kind::int32}},
     2,
     false,
     [](const Views& v) { cross_entropy(stream(), v[0], v[1], v[2], v[3], v[4], v[5], 0, 1); },
     false},
    {"cross_entropy_loss",
     {{"losses", {2}}, {"sum", {2}}, {"target_logit", {2}}},
     0,
     false,
     [](const Views& v) { cross_entropy_loss(stream(), v[0], v[1], v[2]); },
     false},
    {"softmax_cross_entropy",
     {{"losses", {2}, Kind::sum},
      {"dlogits", {2, 3}},
      {"logits", {2, 3}},
      {"statistics", {6}, Kind::sum},
      {"targets", {2}, Kind::int32}},
     2,
     false,
     [](const Views& v) { softmax_cross_entropy(stream(), v[0], v[1], v[2], v[3], v[4], 1); }},
    {"adamw",
     {{"param", {3}}, {"exp_avg", {3}}, {"exp_avg_sq", {3}}, {"grad", {3}}},
     0,
     false,
     [](const Views& v) {
       adamw(stream(), {{v[0], v[1], v[2], v[3]}}, {});
     },
     false},
    {"squared_norms",
     {{"out", {1}, Kind::fp64}, {"workspace", {2}, Kind::fp64}, {"in", {1025}, Kind::x, true}},
     2,
     false,
     [](const Views& v) { squared_norms(stream(), v[0], v[1], {v[2]}); },
     false},
    {"sum",
     {{"out", {1}, Kind::fp64}, {"workspace", {2}, Kind::fp64}, {"in", {1025}, Kind::x, true}},
     2,
     false,
     [](const Views& v) { sum(stream(), v[0], v[1], v[2]); },
     false},
    {"fill", {{"out", {2, 3}}}, 0, true, [](const Views& v) { fill(stream(), v[0], 1); }},
    {"add",
     {{"out", {2, 3}}, {"a", {2, 3}}, {"b", {2, 3}}},
     0,
     true,
     [](const Views& v) { add(stream(), v[0], v[1], v[2]); }},
    {"scale",
     {{"out", {2, 3}}, {"in", {2, 3}}},
     0,
     true,
     [](const Views& v) { scale(stream(), v[0], v[1], 2); }},
    {"add_scaled",
     {{"out", {2, 3}}, {"a", {2, 3}}, {"b", {2, 3}}},
     0,
     true,
     [](const Views& v) { add_scaled(stream(), v[0], v[1], 2, v[2]); }},
    {"cast",
     {{"out", {2, 3}}, {"in", {2, 3}, Kind::any}},
     0,
     true,
     [](const Views& v) { cast(stream(), v[0], v[1]); }},
    {"fill_normal",
     {{"out", {2, 3}}},
     0,
     true,
     [](const Views& v) { fill_normal(stream(), v[0], 1, 0, 1); }},
    {"encode",
     {{"encoded", {17}, Kind::int32}, {"in", {61}}},
     1,
     false,
     [](const Views& v) { encode(stream(), v[0], {}, v[1], {}); },
     false},
    {"decode_sum",
     {{"out", {61}, Kind::x, true}, {"encoded", {2, 17}, Kind::int32}},
     0,
     false,
     [](const Views& v) { decode_sum(stream(), v[0], v[1], {}); },
     false},
    {"orthonormalize",
     {{"matrix", {2, 3}, Kind::x, true}},
     0,
     false,
     [](const Views& v) { orthonormalize(stream(), v[0]); },
     false},
};

TEST_CASE("every kernel of losses, updates and elements refuses every wrong argument by name") {
  require_refusals(kKernels);
}

TEST_CASE("kernels refuse numbers and sizes that cannot be") {
  const OnDevice on = on_every_device();
  const Array a(DType::fp32, {2, 3, 4}), qkv(DType::fp32, {2, 3, 12});
  for (size_t heads : {size_t{0}, size_t{3}, size_t{8}}) {
    const TensorView view(a.view().data(), DType::fp32, a.view().device(), {2, heads, 3});
    CHECK_THROWS_WITH(attention_forward(stream(), a, view, qkv, AttentionMask::causal),
                      ContainsSubstring("`logsumexp`"));
  }
  const Array kv(DType::fp32, {2, 5, 8}), rows(DType::fp32, {2, 2, 3});
  // 4 heads of 2: no keys, half a head, no whole column, 3 key heads, more than query heads.
  const Array eight(DType::fp32, {2, 3, 8}), rows_of_4(DType::fp32, {2, 4, 3});
  for (size_t columns : {7, 8, 10, 13, 20, 32}) {
    const Array wrong(DType::fp32, {2, 3, columns});
    const auto named = ContainsSubstring(concat(
        "`qkv` has shape (2, 3, ", columns, "), expected after the 8 columns of 4 query heads 2"));
    CHECK_THROWS_WITH(attention_forward(stream(), eight, rows_of_4, wrong, AttentionMask::causal),
                      named);
    CHECK_THROWS_WITH(attention_backward(stream(), wrong, rows_of_4, eight, eight, rows_of_4, wrong,
                                         AttentionMask::causal),
                      named);
    CHECK_THROWS_WITH(attention_of_tile_forward(stream(), eight, rows_of_4, wrong, kv, {0, 3, 5}),
                      named);
    CHECK_THROWS_WITH(attention_of_tile_backward(stream(), eight, kv, rows_of_4, eight, rows_of_4,
                                                 wrong, kv, {0, 3, 5}),
                      named);
  }
  for (const ScoreTile& block :
       {ScoreTile{0, 4, 5}, ScoreTile{2, 2, 5}, ScoreTile{0, 3, 6}, ScoreTile{0, 0, 5},
        ScoreTile{0, 3, 0}, ScoreTile{0, 3, 5, true}}) {
    CHECK_THROWS_WITH(
        attention_of_tile_forward(stream(), a, rows, qkv, kv, block),
        ContainsSubstring("`tile` has ") && ContainsSubstring("of 3 queries and 5 keys"));
  }
  CHECK_THROWS_WITH(attention_merge(stream(), a, rows, a, rows, 2, 2),
                    ContainsSubstring("attention_merge"));
  const Array wide(DType::fp32, {2, 8});
  CHECK_THROWS_WITH(copy_columns(stream(), wide, 5, wide, 0, 4), ContainsSubstring("`out`"));
  CHECK_THROWS_WITH(copy_columns(stream(), wide, 0, wide, 5, 4), ContainsSubstring("`in`"));
  CHECK_THROWS_WITH(copy_columns(stream(), wide, 0, Array(DType::fp32, {3, 8}), 0, 4),
                    ContainsSubstring("`in`"));
  const Array few(DType::fp32, {2, 4});
  CHECK_THROWS_WITH(position_forward(stream(), a, a, few), ContainsSubstring("`table`"));
  CHECK_THROWS_WITH(position_backward(stream(), few, a), ContainsSubstring("`dtable`"));
  for (const Array& places : {Array(DType::int32, {2}), Array(DType::fp32, {3})}) {
    CHECK_THROWS_WITH(position_forward(stream(), a, a, few, places),
                      ContainsSubstring("`positions`"));
    CHECK_THROWS_WITH(position_backward(stream(), few, a, places),
                      ContainsSubstring("`positions`"));
  }
  const Array in(DType::fp32, {2, 3}), rstd(DType::fp32, {2}), weight(DType::fp32, {3});
  for (double epsilon : {-1.0, std::nan("")}) {
    CHECK_THROWS_WITH(rmsnorm_forward(stream(), in, rstd, in, weight, epsilon),
                      ContainsSubstring("`epsilon`"));
  }
  const Array table(DType::fp32, {3, 4}), short_table(DType::fp32, {2, 4});
  for (const HeadRange& heads : {HeadRange{0, 4}, HeadRange{3, 1}, HeadRange{size_t{0} - 1, 2}}) {
    CHECK_THROWS_WITH(rotary_forward(stream(), qkv, heads, table),
                      ContainsSubstring("`x` has 12 columns"));
  }
  CHECK_THROWS_WITH(rotary_forward(stream(), qkv, {0, 1}, short_table),
                    ContainsSubstring("`table` has 2 positions, the sequence 3"));
  CHECK_THROWS_WITH(rotary_forward(stream(), qkv, {0, 1}, Array(DType::fp32, {3, 3})),
                    ContainsSubstring("`table`"));
  const Array p(DType::fp32, {3}), half(DType::fp16, {3}), rounded(DType::bf16, {3});
  CHECK_THROWS_WITH(adamw(stream(), {{p, p, p, p}}, {.step = 0}), ContainsSubstring("adamw"));
  const AdamWTensors with_copy = {p, p, p, p, rounded}, other_copy = {p, p, p, p, half};
  CHECK_THROWS_WITH(adamw(stream(), {with_copy, other_copy}, {}),
                    ContainsSubstring("`copy` is fp16"));
  CHECK_THROWS_WITH(adamw(stream(), {with_copy, {p, p, p, p}}, {}),
                    ContainsSubstring("`copy` is empty"));
  CHECK_THROWS_WITH(adamw(stream(), {{p, p, p, p}, with_copy}, {}),
                    ContainsSubstring("`copy` is bf16"));
  CHECK_THROWS_WITH(adamw(stream(), {{p, p, p, p, p}}, {}), ContainsSubstring("`copy` is fp32"));
  const Array d(DType::fp64, {3});
  CHECK_THROWS_WITH(adamw(stream(), {{d, d, d, d, half}}, {}), ContainsSubstring("`copy`"));
  CHECK_THROWS_WITH(adamw(stream(), {{p, p, p, p}, {d, d, d, d}}, {}),
                    ContainsSubstring("`param`"));
}

}  // namespace
}  // namespace ladder
