// Every kernel refuses every wrong argument, and its message names the argument.
#include <string>

#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/attention_merge.h"
#include "kernels/attention_of_tile.h"
#include "kernels/classifier.h"
#include "kernels/codec.h"
#include "kernels/columns.h"
#include "kernels/dispatch.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gelu.h"
#include "kernels/layernorm.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/orthonormalize.h"
#include "kernels/residual.h"
#include "kernels/rmsnorm.h"
#include "kernels/rotary.h"
#include "kernels/router.h"
#include "kernels/swiglu.h"
#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

using Views = std::vector<TensorView>;

// The dtype of an argument where that of the leading one is x.
enum class Kind {
  x,       // the same
  sum,     // x's accumulation dtype
  either,  // one of these two
  any,     // any floating-point one
  int32,
  fp64,
};

struct Argument {
  const char* name;
  Shape shape;
  Kind kind = Kind::x;
  bool last_is_free = false;  // no other argument depends on the last extent
  bool may_be_empty = false;
};

struct Kernel {
  const char* name;
  std::vector<Argument> arguments;
  size_t first;    // the argument that fixes dtype and extents of the others
  bool any_shape;  // so that a wrong shape of `first` is blamed on another
  std::function<void(const Views&)> call;
  bool has_low_precision = true;  // may x be bf16 or fp16?
};

constexpr DType kDTypes[] = {DType::fp32, DType::fp64, DType::int32, DType::bf16, DType::fp16};

const Kernel kKernels[] = {
    {"matmul",
     {{"out", {2, 3}, Kind::either}, {"a", {2, 4}}, {"b", {4, 3}}},
     1,
     false,
     [](const Views& v) { matmul(stream(), v[0], v[1], v[2]); }},
    {"matmul",
     {{"out", {2, 3}, Kind::either}, {"a", {4, 2}}, {"b", {3, 4}}},
     1,
     false,
     [](const Views& v) {
       matmul(stream(), v[0], v[1], v[2], {true, true, true});
     }},
    {"add_bias",
     {{"out", {2, 3}}, {"bias", {3}}},
     0,
     false,
     [](const Views& v) { add_bias(stream(), v[0], v[1]); }},
    {"bias_backward",
     {{"dbias", {3}, Kind::sum}, {"dout", {2, 3}}},
     1,
     false,
     [](const Views& v) { bias_backward(stream(), v[0], v[1]); }},
    {"layernorm_forward",
     {{"out", {2, 3}},
      {"mean", {2}, Kind::sum},
      {"rstd", {2}, Kind::sum},
      {"in", {2, 3}},
      {"weight", {3}},
      {"bias", {3}}},
     0,
     false,
     [](const Views& v) { layernorm_forward(stream(), v[0], v[1], v[2], v[3], v[4], v[5]); }},
    {"layernorm_backward",
     {{"din", {2, 3}},
      {"dweight", {3}, Kind::sum, false, true},
      {"dbias", {3}, Kind::sum, false, true},
      {"dout", {2, 3}},
      {"in", {2, 3}},
      {"weight", {3}},
      {"mean", {2}, Kind::sum},
      {"rstd", {2}, Kind::sum}},
     0,
     false,
     [](const Views& v) {
       layernorm_backward(stream(), v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
     }},
    {"rmsnorm_forward",
     {{"out", {2, 3}}, {"rstd", {2}, Kind::sum}, {"in", {2, 3}}, {"weight", {3}}},
     0,
     false,
     [](const Views& v) { rmsnorm_forward(stream(), v[0], v[1], v[2], v[3], 1e-5); }},
    {"rmsnorm_backward",
     {{"din", {2, 3}},
      {"dweight", {3}, Kind::sum, false, true},
      {"dout", {2, 3}},
      {"in", {2, 3}},
      {"weight", {3}},
      {"rstd", {2}, Kind::sum}},
     0,
     false,
     [](const Views& v) { rmsnorm_backward(stream(), v[0], v[1], v[2], v[3], v[4], v[5]); }},
    {"swiglu_forward",
     {{"out", {2, 3}}, {"in", {2, 6}}},
     0,
     false,
     [](const Views& v) { swiglu_forward(stream(), v[0], v[1]); }},
    {"swiglu_backward",
     {{"din", {2, 6}}, {"dout", {2, 3}}, {"in", {2, 6}}},
     1,
     false,
     [](const Views& v) { swiglu_backward(stream(), v[0], v[1], v[2]); }},
    {"rotary_forward",
     {{"x", {2, 3, 12}},
      {"table", {5, 4}, Kind::sum},
      {"positions", {3}, Kind::int32, false, true}},
     0,
     false,
     [](const Views& v) {
       rotary_forward(stream(), v[0], {1, 2}, v[1], v[2]);
     }},
    {"rotary_backward",
     {{"dx", {2, 3, 12}},
      {"table", {5, 4}, Kind::sum},
      {"positions", {2, 3}, Kind::int32, false, true}},
     0,
     false,
     [](const Views& v) {
       rotary_backward(stream(), v[0], {1, 2}, v[1], v[2]);
     }},
    {"gelu_forward",
     {{"out", {2, 3}}, {"in", {2, 3}}},
     0,
     true,
     [](const Views& v) { gelu_forward(stream(), v[0], v[1]); }},
    {"gelu_backward",
     {{"din", {2, 3}}, {"dout", {2, 3}}, {"in", {2, 3}}},
     0,
     true,
     [](const Views& v) { gelu_backward(stream(), v[0], v[1], v[2]); }},
    {"attention_forward",
     {{"out", {2, 3, 4}}, {"logsumexp", {2, 2, 3}, Kind::sum}, {"qkv", {2, 3, 8}}},
     0,
     false,
     [](const Views& v) { attention_forward(stream(), v[0], v[1], v[2]); }},
    {"attention_backward",
     {{"dqkv", {2, 3, 8}},
      {"row_dot", {2, 2, 3}, Kind::sum},
      {"dout", {2, 3, 4}},
      {"out", {2, 3, 4}},
      {"logsumexp", {2, 2, 3}, Kind::sum},
      {"qkv", {2, 3, 8}}},
     3,
     false,
     [](const Views& v) { attention_backward(stream(), v[0], v[1], v[2], v[3], v[4], v[5]); }},
    {"attention_of_tile_forward",
     {{"out", {2, 3, 4}, Kind::sum},
      {"logsumexp", {2, 2, 3}, Kind::sum},
      {"qkv", {2, 3, 8}},
      {"kv", {2, 5, 4}}},
     2,
     false,
     [](const Views& v) {
       attention_of_tile_forward(stream(), v[0], v[1], v[2], v[3], {1, 2, 4});
     }},
    {"attention_of_tile_backward",
     {{"dq", {2, 3, 4}, Kind::sum},
      {"dkv", {2, 5, 4}, Kind::sum},
      {"row_dot", {2, 2, 3}, Kind::sum},
      {"dout", {2, 3, 4}},
      {"logsumexp", {2, 2, 3}, Kind::sum},
      {"qkv", {2, 3, 8}},
      {"kv", {2, 5, 4}}},
     3,
     false,
     [](const Views& v) {
       attention_of_tile_backward(stream(), v[0], v[1], v[2], v[3], v[4], v[5], v[6], {1, 2, 4});
     }},
    {"attention_merge",
     {{"out", {2, 3, 4}},
      {"logsumexp", {2, 2, 3}},
      {"partial_out", {2, 3, 4}},
      {"partial_logsumexp", {2, 2, 3}}},
     0,
     false,
     [](const Views& v) { attention_merge(stream(), v[0], v[1], v[2], v[3], 1, 2); },
     false},
    {"attention_row_dot",
     {{"row_dot", {2, 2, 3}, Kind::sum}, {"dout", {2, 3, 4}}, {"out", {2, 3, 4}}},
     1,
     false,
     [](const Views& v) { attention_row_dot(stream(), v[0], v[1], v[2]); }},
    {"embedding_forward",
     {{"out", {2, 3, 4}}, {"tokens", {2, 3}, Kind::int32}, {"table", {5, 4}}},
     0,
     false,
     [](const Views& v) { embedding_forward(stream(), v[0], v[1], v[2]); }},
    {"embedding_backward",
     {{"dtable", {5, 4}, Kind::sum}, {"tokens", {2, 3}, Kind::int32}, {"dout", {2, 3, 4}}},
     2,
     false,
     [](const Views& v) { embedding_backward(stream(), v[0], v[1], v[2]); }},
    {"position_forward",
     {{"out", {2, 3, 4}}, {"in", {2, 3, 4}}, {"table", {5, 4}}},
     0,
     false,
     [](const Views& v) { position_forward(stream(), v[0], v[1], v[2]); }},
    {"position_backward",
     {{"dtable", {5, 4}, Kind::sum}, {"dout", {2, 3, 4}}},
     1,
     false,
     [](const Views& v) { position_backward(stream(), v[0], v[1]); }},
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
    {"squared_norm",
     {{"out", {1}, Kind::fp64}, {"workspace", {2}, Kind::fp64}, {"in", {1025}, Kind::x, true}},
     2,
     false,
     [](const Views& v) { squared_norm(stream(), v[0], v[1], v[2]); },
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
    {"add_residual",
     {{"out", {2, 3}},
      {"residual", {2, 3}},
      {"update", {2, 3}},
      {"bias", {3}, Kind::x, false, true}},
     0,
     false,
     [](const Views& v) { add_residual(stream(), v[0], v[1], v[2], v[3]); }},
    {"router_forward",
     {{"probabilities", {4, 3}, Kind::x, true},
      {"logsumexp", {4}},
      {"experts", {4, 2}, Kind::int32},
      {"weights", {4, 2}}},
     0,
     false,
     [](const Views& v) { router_forward(stream(), v[0], v[1], v[2], v[3]); },
     false},
    {"router_backward",
     {{"dlogits", {4, 3}},
      {"probabilities", {4, 3}, Kind::sum},
      {"logsumexp", {4}, Kind::sum},
      {"experts", {4, 2}, Kind::int32},
      {"weights", {4, 2}, Kind::sum},
      {"dweights", {4, 2}, Kind::sum},
      {"fractions", {2, 3}, Kind::sum}},
     0,
     false,
     [](const Views& v) {
       router_backward(stream(), v[0], v[1], v[2], v[3], v[4], v[5], v[6], {});
     }},
    {"router_statistics",
     {{"statistics", {3, 4}}, {"probabilities", {4, 3}}, {"logsumexp", {4}}, {"fractions", {2, 3}}},
     1,
     false,
     [](const Views& v) { router_statistics(stream(), v[0], v[1], v[2], v[3]); },
     false},
    {"gather_rows",
     {{"out", {2, 3}}, {"in", {4, 3}}, {"index", {2}, Kind::int32}},
     0,
     false,
     [](const Views& v) { gather_rows(stream(), v[0], v[1], v[2]); }},
    {"sum_assignments",
     {{"out", {2, 3}}, {"in", {4, 3}}, {"assignments", {2, 2}, Kind::int32, true}},
     0,
     false,
     [](const Views& v) { sum_assignments(stream(), v[0], v[1], v[2]); }},
    {"combine_forward",
     {{"out", {2, 3}},
      {"residual", {2, 3}},
      {"in", {4, 3}},
      {"assignments", {2, 2}, Kind::int32},
      {"weights", {2, 2}, Kind::sum}},
     0,
     false,
     [](const Views& v) { combine_forward(stream(), v[0], v[1], v[2], v[3], v[4]); }},
    // One choice: all assignments are 0 here, and no two choices may have the same.
    {"combine_backward",
     {{"din", {4, 3}},
      {"dweights", {1, 1}, Kind::sum},
      {"dout", {1, 3}},
      {"in", {4, 3}},
      {"assignments", {1, 1}, Kind::int32},
      {"weights", {1, 1}, Kind::sum}},
     2,
     false,
     [](const Views& v) { combine_backward(stream(), v[0], v[1], v[2], v[3], v[4], v[5]); }},
};

// The kernel throws an Error that names it and the argument; `name` null: some argument.
void require_refused(const Kernel& kernel, const Views& views, const char* name) {
  std::string what;
  try {
    kernel.call(views);
    FAIL("no error");
  } catch (const Error& error) {
    what = error.what();
  }
  INFO(what);
  CHECK(what.find(kernel.name) != std::string::npos);
  CHECK(what.find('\n') == std::string::npos);
  bool named = false;
  for (const Argument& argument : kernel.arguments) {
    if (name != nullptr && std::string(name) != argument.name) continue;
    named = named || what.find(concat("`", argument.name, "`")) != std::string::npos;
  }
  CHECK(named);
}

Shape with_one_more_dim(const Shape& s) {
  return s.num_dims() == 1   ? Shape{s[0], 1}
         : s.num_dims() == 2 ? Shape{s[0], s[1], 1}
                             : Shape{s[0], s[1], s[2], 1};
}

Shape with_last_less(const Shape& s) {
  return s.num_dims() == 1   ? Shape{s[0] - 1}
         : s.num_dims() == 2 ? Shape{s[0], s[1] - 1}
                             : Shape{s[0], s[1], s[2] - 1};
}

// May argument i be of `dtype` where the leading one is of x?
bool may_be(const Kernel& kernel, size_t i, DType dtype, DType x) {
  const bool is_sum = accumulation_dtype(dtype) == dtype;
  if (i == kernel.first) return dtype != DType::int32 && (kernel.has_low_precision || is_sum);
  switch (kernel.arguments[i].kind) {
    case Kind::x:
      // The gradient of fp32 logits may be of a lower precision.
      return dtype == x ||
             (std::string(kernel.arguments[i].name) == "dlogits" && accumulation_dtype(dtype) == x);
    case Kind::sum:
      return dtype == accumulation_dtype(x);
    case Kind::either:
      return dtype == x || dtype == accumulation_dtype(x);
    case Kind::any:
      return dtype != DType::int32;
    case Kind::int32:
      return dtype == DType::int32;
    case Kind::fp64:
      return dtype == DType::fp64;
  }
  return false;
}

DType dtype_of_kind(Kind kind, DType x) {
  if (kind == Kind::int32) return DType::int32;
  if (kind == Kind::fp64) return DType::fp64;
  return kind == Kind::sum ? accumulation_dtype(x) : x;
}

void damage(const Kernel& kernel, const Views& good, size_t i) {
  const TensorView view = good[i];
  const bool is_first = i == kernel.first;
  const char* const name = kernel.arguments[i].name;
  const auto refused = [&](const TensorView& bad, const char* blamed) {
    Views views = good;
    views[i] = bad;
    require_refused(kernel, views, blamed);
  };
  const auto with_dtype = [&](DType dtype) {
    return TensorView(view.data(), dtype, view.device(), view.shape());
  };
  const auto with_shape = [&](const Shape& shape) {
    return TensorView(view.data(), view.dtype(), view.device(), shape);
  };
  if (!kernel.arguments[i].may_be_empty) refused({}, name);
  const bool on_cpu = view.device() == DeviceType::cpu;
  const DeviceType elsewhere = on_cpu ? cuda_device_of_build() : DeviceType::cpu;
  refused(TensorView(view.data(), view.dtype(), elsewhere, view.shape()), name);
  const DType x = good[kernel.first].dtype();
  for (DType dtype : kDTypes) {
    if (!may_be(kernel, i, dtype, x)) refused(with_dtype(dtype), name);
  }
  if (kernel.any_shape && kernel.arguments.size() == 1) return;
  refused(with_shape(with_one_more_dim(view.shape())),
          is_first && kernel.any_shape ? nullptr : name);
  if (kernel.arguments[i].last_is_free) return;
  refused(with_shape(with_last_less(view.shape())), nullptr);
}

void require_refuses_all(const Kernel& kernel, DType x) {
  std::vector<Tensor> tensors;  // zeros: valid tokens and targets
  Views good;
  for (const Argument& argument : kernel.arguments) {
    // Room for the damage that makes a view larger, or its elements.
    const Shape room{4 * argument.shape.num_elements()};
    tensors.emplace_back(memory(), Category::workspace, dtype_of_kind(argument.kind, x), room);
    good.push_back(tensors.back().view().elements(0, argument.shape));
  }
  INFO(kernel.name << " of " << name_of(x));
  REQUIRE_NOTHROW(kernel.call(good));
  for (size_t i = 0; i < good.size(); ++i) {
    INFO("damaged: " << kernel.arguments[i].name);
    damage(kernel, good, i);
  }
}

TEST_CASE("every kernel refuses every wrong argument by name") {
  const OnDevice on = on_every_device();
  for (const Kernel& kernel : kKernels) {
    for (DType x : floats()) {
      if (kernel.has_low_precision || accumulation_dtype(x) == x) require_refuses_all(kernel, x);
    }
  }
}

TEST_CASE("kernels refuse numbers and sizes that cannot be") {
  const OnDevice on = on_every_device();
  const Array a(DType::fp32, {2, 3, 4}), qkv(DType::fp32, {2, 3, 12});
  for (size_t heads : {size_t{0}, size_t{3}, size_t{8}}) {
    const TensorView view(a.view().data(), DType::fp32, a.view().device(), {2, heads, 3});
    CHECK_THROWS_WITH(attention_forward(stream(), a, view, qkv), ContainsSubstring("`logsumexp`"));
  }
  const Array kv(DType::fp32, {2, 5, 8}), rows(DType::fp32, {2, 2, 3});
  // 4 heads of 2: no keys, half a head, no whole column, 3 key heads, more than query heads.
  const Array eight(DType::fp32, {2, 3, 8}), rows_of_4(DType::fp32, {2, 4, 3});
  for (size_t columns : {7, 8, 10, 13, 20, 32}) {
    const Array wrong(DType::fp32, {2, 3, columns});
    const auto named = ContainsSubstring(concat(
        "`qkv` has shape (2, 3, ", columns, "), expected after the 8 columns of 4 query heads 2"));
    CHECK_THROWS_WITH(attention_forward(stream(), eight, rows_of_4, wrong), named);
    CHECK_THROWS_WITH(
        attention_backward(stream(), wrong, rows_of_4, eight, eight, rows_of_4, wrong), named);
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
