#include "lessons/15_expert_parallel/expert_layer.h"

#include "common/comm/one_rank.h"
#include "common/model/linear.h"
#include "common/model/mlp_core.h"
#include "kernels/dispatch.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"

namespace ladder {
namespace {

using A = SublayerActivation;
using P = ExpertParameter;

// Returns the first `rows` rows of n elements.
TensorView rows_of(const Tensor& tensor, size_t rows, size_t n) {
  return tensor.view().elements(0, {rows, n});
}

template <class T>
std::span<T> elements(const Tensor& tensor, size_t count) {
  return {tensor.view().as<std::remove_const_t<T>>(), count};
}

}  // namespace

size_t ExpertLayer::most_sent(const RoutingSizes& s, double capacity_factor) {
  const size_t capacity = expert_capacity(s.tokens, s.chosen, s.num_experts, capacity_factor);
  return s.batch * std::min(s.tokens * s.chosen, s.num_experts * capacity);
}

size_t ExpertLayer::most_arriving(const RoutingSizes& s, double capacity_factor, size_t num_ranks) {
  const size_t capacity = expert_capacity(s.tokens, s.chosen, s.num_experts, capacity_factor);
  const size_t held = s.num_experts / num_ranks;
  return num_ranks * s.batch * std::min(s.tokens * std::min(s.chosen, held), held * capacity);
}

ExpertLayer::ExpertLayer(Memory& device, Memory& host, const Layout& layout, DType dtype,
                         size_t batch, size_t tokens, const Options& options)
    : options_(options),
      alone_(std::make_unique<OneRank>(device.device())),
      ranks_(options.ranks != nullptr ? *options.ranks : alone_),
      mlp_(dense_sublayers(layout.config())[kMlp]),
      hidden_(layout.config().hidden),
      num_experts_(layout.config().experts.num_experts),
      chosen_(layout.config().experts.per_token) {
  const RoutingSizes sizes = {batch, tokens, chosen_, num_experts_};
  const size_t r = sizes.rows(), c = hidden_, e = num_experts_, k = chosen_;
  const size_t sent = most_sent(sizes, options.capacity_factor);
  const size_t arriving = most_arriving(sizes, options.capacity_factor, ranks_.size());
  const DType full = accumulation_dtype(dtype);
  constexpr DType kIndex = DType::int32;
  for (const Operation& operation : layout.operations()) {
    if (operation.kind != OperationKind::experts) continue;
    const auto keep = [&](DType type, size_t elements) {
      return Tensor(device, Category::activations, type, {elements});
    };
    Block& b = blocks_[operation.index];
    b.probabilities = keep(full, r * e);
    b.logsumexp = keep(full, r);
    b.experts = keep(kIndex, r * k);
    b.weights = keep(full, r * k);
    b.fractions = keep(full, batch * e);
    b.assignments = keep(kIndex, r * k);
    b.grouped = keep(kIndex, arriving);
    b.arrived = keep(kIndex, arriving);
    b.in = keep(dtype, arriving * c);
    b.fc = keep(dtype, arriving * mlp_.first.out);
    b.gelu = keep(dtype, arriving * mlp_.second.in);
    b.returned = keep(dtype, sent * c);
    b.totals = Tensor(device, Category::workspace, DType::fp64, {3});
  }
  const auto make = [&](DType type, size_t elements, MemorySource* source = nullptr) {
    return Tensor(device, Category::workspace, type, {elements}, source);
  };
  rows_ = make(kIndex, sent);
  sent_ = make(dtype, sent * c, options.registered);
  arrived_ = make(dtype, arriving * c, options.registered);
  at_experts_ = make(dtype, arriving * c);
  d_inner_ = make(dtype, arriving * mlp_.second.in);
  dweights_ = make(full, r * k);
  dlogits_ = make(dtype, r * e);
  statistics_ = make(full, 3 * r);
  sums_ = make(DType::fp64, sum_workspace_elements(r));
  sum_ = make(DType::fp64, 1);
  adapters_ = make(dtype, 2 * arriving * widest_adapters(mlp_));
  const auto make_host = [&](DType type, size_t elements) {
    return Tensor(host, Category::workspace, type, {elements});
  };
  host_experts_ = make_host(kIndex, r * k);
  host_assignments_ = make_host(kIndex, r * k);
  host_rows_ = make_host(kIndex, sent);
  host_grouped_ = make_host(kIndex, arriving);
  host_arrived_ = make_host(kIndex, arriving);
  host_fractions_ = make_host(full, batch * e);
  host_counts_ = make_host(kIndex, ranks_.size() * e);
}

RoutingSizes ExpertLayer::sizes_of(const BlockActivations& block) const {
  const Shape& shape = activations_of(block, kAttention)[A::statistics].shape();  // (B, NH, T)
  return {shape[0], shape[2], chosen_, num_experts_, lengths_};
}

void ExpertLayer::forward(Stream& stream, const Operation& operation, const BlockActivations& block,
                          const ConstUnitView& weights) {
  Block& b = blocks_.at(operation.index);
  if (operation.kind == OperationKind::router) return route(stream, b, block, weights);
  run(stream, b, block, weights);
}

void ExpertLayer::backward(Stream& stream, const Operation& operation, TensorView d_norm,
                           ConstTensorView d_out, const UnitView& gradients,
                           const BlockActivations& block, const ConstUnitView& weights) {
  Block& b = blocks_.at(operation.index);
  if (operation.kind == OperationKind::experts) {
    return run_backward(stream, b, d_norm, d_out, gradients, weights);
  }
  route_backward(stream, b, d_norm, gradients, block, weights);
}

void ExpertLayer::route(Stream& stream, Block& b, const BlockActivations& block,
                        const ConstUnitView& weights) {
  const RoutingSizes sizes = sizes_of(block);
  const size_t r = sizes.rows(), e = num_experts_, num_choices = r * chosen_;
  const TensorView probabilities = rows_of(b.probabilities, r, e);
  const TensorView experts = rows_of(b.experts, r, chosen_);
  linear_forward(stream, probabilities, activations_of(block, kMlp)[A::norm], weights[0], {},
                 mlp_.first.out_first);
  router_forward(stream, probabilities, b.logsumexp.view().rows(0, r), experts,
                 rows_of(b.weights, r, chosen_));
  copy(stream, rows_of(host_experts_, r, chosen_), experts);
  stream.synchronize();  // the host needs the choices, and its buffers have been copied by now

  const bool is_simulated = Simulation::current() != nullptr;
  if (is_simulated) choose_in_turn(elements<int32_t>(host_experts_, num_choices), e);
  const TensorView fractions = rows_of(host_fractions_, sizes.batch, e);
  b.routing = assign_tokens(elements<int32_t>(host_assignments_, num_choices),
                            elements<int32_t>(host_rows_, host_rows_.shape()[0]), fractions,
                            elements<const int32_t>(host_experts_, num_choices), sizes,
                            options_.capacity_factor);
  const TensorView counts = rows_of(host_counts_, ranks_.size(), e);
  const TensorView own = counts.rows(ranks_.rank(), 1);
  std::copy(b.routing.kept.begin(), b.routing.kept.end(), own.as<int32_t>());
  ranks_.all_gather(stream, counts, own, {.purpose = Purpose::activation}).wait(stream);
  for (size_t rank = 0; is_simulated && rank < ranks_.size(); ++rank) {  // all choose alike
    std::copy(b.routing.kept.begin(), b.routing.kept.end(), counts.rows(rank, 1).as<int32_t>());
  }
  b.arrival = order_arrivals(elements<int32_t>(host_grouped_, host_grouped_.shape()[0]),
                             elements<int32_t>(host_arrived_, host_arrived_.shape()[0]),
                             elements<const int32_t>(host_counts_, counts.num_elements()),
                             ranks_.size(), ranks_.rank());
  const auto to_device = [&](const Tensor& to, const Tensor& from, size_t count) {
    if (count > 0) copy(stream, to.view().rows(0, count), from.view().rows(0, count));
  };
  const size_t num_arrived = b.arrival.rows.received(ranks_.rank());
  to_device(b.assignments, host_assignments_, num_choices);
  to_device(rows_, host_rows_, b.routing.num_assignments());
  to_device(b.fractions, host_fractions_, sizes.batch * e);
  to_device(b.grouped, host_grouped_, num_arrived);
  to_device(b.arrived, host_arrived_, num_arrived);
}

void ExpertLayer::bring(Stream& stream, const Block& b, TensorView at_experts,
                        ConstTensorView sent) {
  const size_t count = at_experts.shape()[0];
  const TensorView arrived = rows_of(arrived_, count, hidden_);
  ranks_
      .all_to_all(stream, arrived, sent, b.arrival.rows.times(hidden_),
                  {.purpose = Purpose::activation, .by_data = true})
      .wait(stream);
  gather_rows(stream, at_experts, arrived, b.grouped.view().rows(0, count));
}

void ExpertLayer::bring_back(Stream& stream, const Block& b, TensorView sent,
                             ConstTensorView at_experts) {
  const size_t count = at_experts.shape()[0];
  const TensorView arrived = rows_of(arrived_, count, hidden_);
  gather_rows(stream, arrived, at_experts, b.arrived.view().rows(0, count));
  ranks_
      .all_to_all(stream, sent, arrived, b.arrival.rows.reversed().times(hidden_),
                  {.purpose = Purpose::activation, .by_data = true})
      .wait(stream);
}

template <class Body>
void ExpertLayer::for_experts(const Block& b, Body body) const {
  size_t first = 0;
  for (size_t expert = 0; expert < b.arrival.of_expert.size(); ++expert) {
    const size_t count = b.arrival.of_expert[expert];
    if (count > 0) body(expert * P::kCount, first, count);
    first += count;
  }
}

void ExpertLayer::run(Stream& stream, Block& b, const BlockActivations& block,
                      const ConstUnitView& w) {
  const size_t r = sizes_of(block).rows(), c = hidden_, n = b.routing.num_assignments();
  const size_t arrived = b.arrival.rows.received(ranks_.rank());
  const TensorView sent = rows_of(sent_, n, c), in = rows_of(b.in, arrived, c);
  const TensorView fc = rows_of(b.fc, arrived, mlp_.first.out);
  const TensorView gelu = rows_of(b.gelu, arrived, mlp_.second.in);
  const TensorView out = rows_of(at_experts_, arrived, c), returned = rows_of(b.returned, n, c);
  const auto mlp = activations_of(block, kMlp);
  gather_rows(stream, sent, mlp[A::norm], rows_.view().rows(0, n));
  bring(stream, b, in, sent);
  for_experts(b, [&](size_t p, size_t first, size_t count) {
    const auto its = [&](const TensorView& all) { return all.rows(first, count); };
    first_of(w, p).forward(stream, its(fc), its(in));
    mlp_core_forward(stream, mlp_.core, its(gelu), its(fc));
    second_of(w, p).forward(stream, its(out), its(gelu));
  });
  bring_back(stream, b, returned, out);
  combine_forward(stream, mlp[A::out], activations_of(block, kAttention)[A::out], returned,
                  rows_of(b.assignments, r, chosen_), rows_of(b.weights, r, chosen_));
}

void ExpertLayer::run_backward(Stream& stream, Block& b, TensorView d_norm, ConstTensorView d_out,
                               const UnitView& g, const ConstUnitView& w) {
  const size_t r = d_out.shape()[0], c = hidden_, n = b.routing.num_assignments();
  const size_t arrived = b.arrival.rows.received(ranks_.rank());
  const TensorView sent = rows_of(sent_, n, c), in = rows_of(b.in, arrived, c);
  const TensorView fc = rows_of(b.fc, arrived, mlp_.first.out);
  const TensorView gelu = rows_of(b.gelu, arrived, mlp_.second.in);
  const TensorView d = rows_of(at_experts_, arrived, c);
  const TensorView d_gelu = rows_of(d_inner_, arrived, mlp_.second.in);
  const TensorView d_fc = mlp_.core == Core::gelu ? d_gelu : fc;  // SwiGLU's is wider than d_gelu
  const TensorView assignments = rows_of(b.assignments, r, chosen_);
  combine_backward(stream, sent, rows_of(dweights_, r, chosen_), d_out, rows_of(b.returned, n, c),
                   assignments, rows_of(b.weights, r, chosen_));
  bring(stream, b, d, sent);
  for_experts(b, [&](size_t p, size_t first, size_t count) {
    const auto its = [&](const TensorView& all) { return all.rows(first, count); };
    second_of(w, p).backward(stream, its(d_gelu), g, its(d), its(gelu));
    mlp_core_backward(stream, mlp_.core, its(d_fc), its(d_gelu), its(fc));
    first_of(w, p).backward(stream, its(d), g, its(d_fc), its(in));
  });
  bring_back(stream, b, sent, d);
  sum_assignments(stream, d_norm, sent, assignments);
}

void ExpertLayer::route_backward(Stream& stream, Block& b, TensorView d_norm, const UnitView& g,
                                 const BlockActivations& block, const ConstUnitView& w) {
  const RoutingSizes sizes = sizes_of(block);
  const size_t r = sizes.rows(), e = num_experts_;
  const TensorView probabilities = rows_of(b.probabilities, r, e);
  const TensorView logsumexp = b.logsumexp.view().rows(0, r);
  const TensorView fractions = rows_of(b.fractions, sizes.batch, e);
  const TensorView dlogits = rows_of(dlogits_, r, e);
  router_backward(stream, dlogits, probabilities, logsumexp, rows_of(b.experts, r, chosen_),
                  rows_of(b.weights, r, chosen_), rows_of(dweights_, r, chosen_), fractions,
                  {options_.factors.balance / num_tokens_, options_.factors.z / num_tokens_});
  for (size_t s = 0; s < sizes.batch; ++s) {
    const size_t length = sizes.length(s), padding = sizes.tokens - length;
    b.load.num_tokens += static_cast<double>(length);
    if (padding == 0) continue;
    for (const TensorView& all : {dlogits, probabilities, logsumexp}) {  // they add 0 to all sums
      fill(stream, all.rows(s * sizes.tokens + length, padding), 0);
    }
  }
  const bool out_first = mlp_.first.out_first;  // of the router's weight, too
  linear_backward_weight(stream, g[0], {}, dlogits, activations_of(block, kMlp)[A::norm],
                         out_first);
  matmul(stream, d_norm, dlogits, w[0], {.transpose_b = !out_first, .accumulate = true});

  const TensorView statistics = rows_of(statistics_, 3, r);
  router_statistics(stream, statistics, probabilities, logsumexp, fractions);
  for (size_t i = 0; i < 3; ++i) {
    sum(stream, sum_, sums_, statistics.rows(i, 1).reshape({r}));
    const TensorView total = b.totals.view().rows(i, 1);
    add(stream, total, total, sum_);
  }
  b.load.kept.resize(e);
  b.load.dropped.resize(e);
  for (size_t x = 0; x < e; ++x) {
    b.load.kept[x] += static_cast<double>(b.routing.kept[x]);
    b.load.dropped[x] += static_cast<double>(b.routing.dropped[x]);
  }
}

std::map<size_t, ExpertLayer::Load> ExpertLayer::loads(Stream& stream) {
  std::map<size_t, Load> loads;
  for (auto& [index, b] : blocks_) {
    double totals[3];
    copy(stream, TensorView(totals, DType::fp64, DeviceType::cpu, {3}), b.totals);
    stream.synchronize();
    Load& load = loads[index] = b.load;
    load.balance = totals[0], load.z = totals[1], load.entropy = totals[2];
  }
  return loads;
}

void ExpertLayer::clear(Stream& stream, double num_tokens) {
  num_tokens_ = num_tokens;
  for (auto& [index, b] : blocks_) {
    b.load = {};
    fill(stream, b.totals, 0);
  }
}

}  // namespace ladder
