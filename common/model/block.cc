#include "common/model/block.h"

#include <ranges>

#include "common/model/adapters.h"
#include "common/model/linear.h"
#include "common/model/mlp_core.h"
#include "common/model/norm.h"
#include "kernels/fused_matmul.h"
#include "kernels/head_norm.h"
#include "kernels/matmul.h"
#include "kernels/residual.h"
#include "kernels/rotary.h"

namespace ladder {
namespace {

using A = SublayerActivation;
using O = SublayerOperation;
using P = SublayerParameter;

// Returns (R, n) as (B, T, n). B and T are those of attention's statistics (B, NH, T).
template <class View>
View by_sequence(View rows, const TensorView& logsumexp) {
  return rows.reshape({logsumexp.shape()[0], logsumexp.shape()[2], rows.shape()[1]});
}

// The heads of q, or those of k: where they lie in the output of `first`, the weight of their norm,
// and what forward saves of them for backward.
struct NormedHeads {
  HeadRange heads;
  P::Index weight;
  TensorView before, rstd;
};

// A sublayer of a block: its activations `a`, its parameters w(), and its input in().
struct SublayerCall {
  const Sublayer& sublayer;
  const BlockCall& block;
  std::span<const TensorView, A::kCount> a;

  SublayerCall(const Sublayer& sublayer_, const BlockCall& block_)
      : sublayer(sublayer_),
        block(block_),
        a(activations_of(block_.activations, sublayer_.index)) {}

  // The residual stream before the sublayer: the output of the one before.
  ConstTensorView in() const {
    if (sublayer.index == 0) return block.in;
    return activations_of(block.activations, sublayer.index - 1)[A::out];
  }
  ConstTensorView w(P::Index i) const { return block.weights[sublayer.parameter(i)]; }
  TensorView inner(const Shape& shape) const { return block.workspace.inner.elements(0, shape); }
  bool is(Core core) const { return sublayer.core == core; }
  // Return the adapters of the two linear layers.
  Adapters first_adapters() const {
    return {sublayer.first, block.weights, sublayer.parameter(P::first_weight),
            block.workspace.adapters};
  }
  Adapters second_adapters() const {
    return {sublayer.second, block.weights, sublayer.parameter(P::second_weight),
            block.workspace.adapters};
  }
  // Returns q's and k's. Those of q come first in both of the activations. REQUIRES: norms_heads.
  std::array<NormedHeads, 2> normed_heads() const {
    const size_t rows = a[A::heads].shape()[0], size = sublayer.head_size();
    const size_t queries = a[A::core].shape()[1] / size;
    const auto heads = [&](size_t first, size_t count, P::Index weight) {
      return NormedHeads{{first, count},
                         weight,
                         a[A::heads].elements(rows * first * size, {rows, count * size}),
                         a[A::head_rstd].elements(rows * first, {rows, count})};
    };
    return {heads(0, queries, P::query_norm),
            heads(queries, a[A::head_rstd].shape()[1] - queries, P::key_norm)};
  }
  // Turns q and k, which lie in the first columns of x (R, columns of first), by their positions;
  // or their gradient back. Without rotary positions nothing happens.
  void turn(Stream& stream, TensorView x, Turn turn) const {
    if (!sublayer.is_rotary) return;
    const ConstTensorView table = block.workspace.rotary_table;
    // Of the heads, all are in the output of `first`, and those of q in that of the core.
    const size_t columns = (x.shape()[1] + a[A::core].shape()[1]) / 2;
    const auto& rotary = turn == Turn::forward ? rotary_forward : rotary_backward;
    rotary(stream, by_sequence(x, a[A::statistics]), {0, columns / table.shape()[1]}, table,
           block.positions);
  }
};

void core_forward(Stream& stream, const SublayerCall& s) {
  const TensorView first = s.a[A::first], statistics = s.a[A::statistics], core = s.a[A::core];
  if (!s.is(Core::attention)) return mlp_core_forward(stream, s.sublayer.core, core, first);
  s.block.context.forward(stream, by_sequence(core, statistics), statistics,
                          by_sequence(first, statistics), s.sublayer.mask);
}

// Computes d_first, the gradient with respect to the first linear layer's output. It may be the
// activation `first`, unless the core is attention; for GELU it may be d_core, too. Adds the
// gradients of the weights that norm q and k.
void core_backward(Stream& stream, const SublayerCall& s, TensorView d_first,
                   ConstTensorView d_core, const UnitView& gradients) {
  const TensorView first = s.a[A::first], statistics = s.a[A::statistics], core = s.a[A::core];
  if (!s.is(Core::attention)) {
    return mlp_core_backward(stream, s.sublayer.core, d_first, d_core, first);
  }
  s.block.context.backward(stream, by_sequence(d_first, statistics), s.block.workspace.row_dot,
                           by_sequence(d_core, statistics), by_sequence(core, statistics),
                           statistics, by_sequence(first, statistics), s.sublayer.mask);
  s.turn(stream, d_first, Turn::back);
  if (!s.sublayer.norms_heads) return;
  for (const NormedHeads& of : s.normed_heads()) {
    head_norm_backward(stream, d_first, gradients[s.sublayer.parameter(of.weight)], of.heads,
                       of.before, s.w(of.weight), of.rstd);
  }
}

// The first linear layer; and the core, too, if one kernel runs both.
void first_forward(Stream& stream, const SublayerCall& s, bool with_core) {
  const ConstTensorView weight = s.w(P::first_weight), bias = s.w(P::first_bias);
  const ConstTensorView rows = s.block.tensor.enter(stream, s.a[A::norm], s.block.workspace.hidden);
  if (with_core) return matmul_bias_gelu(stream, s.a[A::core], s.a[A::first], rows, weight, bias);
  linear_forward(stream, s.a[A::first], rows, weight, bias, s.sublayer.first.out_first);
  s.first_adapters().forward(stream, s.a[A::first], rows);
  if (s.sublayer.norms_heads) {
    for (const NormedHeads& of : s.normed_heads()) {
      head_norm_forward(stream, s.a[A::first], of.before, of.rstd, of.heads, s.w(of.weight),
                        s.sublayer.norm_epsilon);
    }
  }
  s.turn(stream, s.a[A::first], Turn::forward);
}

// out = in + (core weight + bias).
void second_forward(Stream& stream, const SublayerCall& s) {
  const TensorView core = s.a[A::core], partial = s.block.workspace.hidden;
  const ConstTensorView weight = s.w(P::second_weight), bias = s.w(P::second_bias);
  const bool out_first = s.sublayer.second.out_first;
  if (!s.block.tensor.is_split()) {
    matmul_residual(stream, s.a[A::out], core, weight, bias, s.in(), out_first);
    return s.second_adapters().forward(stream, s.a[A::out], core);
  }
  // The ranks sum their products before the bias is added, so that it counts once.
  linear_forward(stream, partial, core, weight, {}, out_first);
  s.second_adapters().forward(stream, partial, core);
  const ConstTensorView sum = s.block.tensor.leave(stream, partial);
  add_residual(stream, s.a[A::out], s.in(), sum, bias);
}

void sublayer_forward(Stream& stream, const SublayerCall& s, const BlockOperations& operations) {
  const auto runs = [&](O::Index i) { return operations[s.sublayer.operation(i)]; };
  if (runs(O::norm)) {
    const ConstTensorView in = s.in();
    const TensorView out = s.block.tensor.own_rows(s.a[A::norm], in.shape()[0]);
    norm_forward(stream, s.sublayer.norm, s.sublayer.norm_epsilon, out, s.a[A::mean], s.a[A::rstd],
                 in, s.w(P::norm_weight), s.w(P::norm_bias));
  }
  if (s.sublayer.num_experts > 0) return;
  // GELU comes after what adapters add.
  const bool is_fused =
      s.is(Core::gelu) && runs(O::first) && runs(O::core) && s.first_adapters().empty();
  if (runs(O::first)) first_forward(stream, s, is_fused);
  if (runs(O::core) && !is_fused) core_forward(stream, s);
  if (runs(O::second)) second_forward(stream, s);
}

// The half `weight`. A::first and A::out now hold the gradients of the first and the second linear
// layer's output.
void weight_backward(Stream& stream, const SublayerCall& s, const UnitView& gradients) {
  const auto g = [&](P::Index i) { return gradients[s.sublayer.parameter(i)]; };
  const TensorView gathered = s.block.workspace.gathered;
  const ConstTensorView d_out = s.block.tensor.leave_backward(stream, s.a[A::out], gathered);
  const Sublayer& sublayer = s.sublayer;
  linear_backward_weight(stream, g(P::second_weight), {}, d_out, s.a[A::core],
                         sublayer.second.out_first);
  if (!g(P::second_bias).empty()) bias_backward(stream, g(P::second_bias), s.a[A::out]);
  TensorParallel::Pending normed = s.block.tensor.enter_again(stream, s.a[A::norm], gathered);
  normed.work.wait(stream);
  linear_backward_weight(stream, g(P::first_weight), g(P::first_bias), s.a[A::first], normed.rows,
                         sublayer.first.out_first);
}

// Where the gradients of the core's output and input lie.
struct CoreGradients {
  TensorView d_core, d_first;
  bool is_fused;  // one kernel computes d_first at once, where d_core would lie
};

// The half `input` wants d_first where `first` lay. SwiGLU's is as wide as `first`, and twice as
// wide as d_core, so it always lies there.
CoreGradients gradients_of_core(const SublayerCall& s, bool with_weights) {
  const Shape &first = s.a[A::first].shape(), &core = s.a[A::core].shape();
  const TensorView inner = s.inner(s.is(Core::swiglu) ? core : first);
  if (s.is(Core::attention)) return {s.block.workspace.d_core, inner, false};
  const bool is_in_place = s.is(Core::swiglu) || !with_weights;
  const bool is_fused = s.is(Core::gelu) && with_weights && s.second_adapters().empty();
  return {inner, is_in_place ? s.a[A::first] : inner, is_fused};
}

// Backward of second, core and first: all of it, or the half `input`. Returns the gradient with
// respect to the norm's output.
ConstTensorView linears_backward(Stream& stream, const SublayerCall& s, TensorView d_residual,
                                 const UnitView& gradients, bool with_weights) {
  const auto g = [&](P::Index i) { return gradients[s.sublayer.parameter(i)]; };
  const TensorParallel& tensor = s.block.tensor;
  const Linear &first = s.sublayer.first, &second = s.sublayer.second;
  const TensorView scratch = s.block.workspace.hidden, gathered = s.block.workspace.gathered;
  const CoreGradients core = gradients_of_core(s, with_weights);
  const ConstTensorView d_out = tensor.leave_backward(stream, d_residual, gathered);
  if (core.is_fused) {
    matmul_gelu_backward(stream, core.d_core, d_out, s.w(P::second_weight), s.a[A::first]);
  } else {
    linear_backward_input(stream, core.d_core, d_out, s.w(P::second_weight), second.out_first);
  }
  const Adapters first_adapters = s.first_adapters(), second_adapters = s.second_adapters();
  second_adapters.backward_input(stream, core.d_core, d_out);
  second_adapters.backward_weight(stream, gradients, d_out, s.a[A::core]);
  if (with_weights) {
    linear_backward_weight(stream, g(P::second_weight), {}, d_out, s.a[A::core], second.out_first);
    // Of the rows of this rank alone.
    if (!g(P::second_bias).empty()) bias_backward(stream, g(P::second_bias), d_residual);
  }
  TensorParallel::Pending normed;
  if ((with_weights && !g(P::first_weight).empty()) || !first_adapters.empty()) {
    normed = tensor.enter_again(stream, s.a[A::norm], gathered);
  }
  if (!core.is_fused) core_backward(stream, s, core.d_first, core.d_core, gradients);
  // The weight's half finds d_first where `first` lay.
  if (s.is(Core::attention) && !with_weights) copy(stream, s.a[A::first], core.d_first);
  linear_backward_input(stream, scratch, core.d_first, s.w(P::first_weight), first.out_first);
  first_adapters.backward_input(stream, scratch, core.d_first);
  TensorParallel::Pending d_normed = tensor.enter_backward(stream, scratch);
  normed.work.wait(stream);
  first_adapters.backward_weight(stream, gradients, core.d_first, normed.rows);
  if (with_weights) {
    linear_backward_weight(stream, g(P::first_weight), g(P::first_bias), core.d_first, normed.rows,
                           first.out_first);
  }
  d_normed.work.wait(stream);
  return d_normed.rows;
}

}  // namespace

void block_forward(Stream& stream, const BlockCall& block, BlockOperations operations) {
  for (const Sublayer& sublayer : block.sublayers) {
    sublayer_forward(stream, SublayerCall(sublayer, block), operations);
  }
}

void block_backward(Stream& stream, const BlockCall& block, TensorView d_residual,
                    const UnitView& gradients, BackwardHalf half) {
  for (const Sublayer& sublayer : std::views::reverse(block.sublayers)) {
    const SublayerCall s(sublayer, block);
    if (half == BackwardHalf::weight) {
      weight_backward(stream, s, gradients);
      continue;
    }
    const bool with_weights = half == BackwardHalf::both;
    // What follows the sublayer has run its backward, so nobody reads `out` any more.
    if (!with_weights) copy(stream, s.a[A::out], d_residual);
    const ConstTensorView d_norm =
        sublayer.num_experts > 0 ? block.workspace.hidden
                                 : linears_backward(stream, s, d_residual, gradients, with_weights);
    norm_backward(stream, sublayer.norm, d_residual, gradients[sublayer.parameter(P::norm_weight)],
                  gradients[sublayer.parameter(P::norm_bias)], d_norm, s.in(), s.w(P::norm_weight),
                  s.a[A::mean], s.a[A::rstd]);
  }
}

}  // namespace ladder
