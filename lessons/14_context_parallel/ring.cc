#include "lessons/14_context_parallel/ring.h"

#include <utility>

#include "common/train/trainer/ranks.h"
#include "kernels/attention_merge.h"
#include "kernels/columns.h"
#include "kernels/elementwise.h"

namespace ladder {
namespace {

// Returns (B, T, n) as (B T, n).
template <class View>
View as_rows(View view) {
  const Shape& shape = view.shape();
  return view.reshape({shape[0] * shape[1], shape[2]});
}

}  // namespace

RingAttention::RingAttention(const TrainerContext& context, SlicePlan plan, Communicator& ring)
    : plan_(std::move(plan)),
      ring_(ring),
      batch_(context.config.micro_batch_size),
      queries_(context.config.model.query_columns() / context.ranks->grid.tensor_size),
      keys_(context.config.model.key_value_heads_of(context.ranks->grid.tensor_size) *
            context.config.model.head_columns()) {
  const RunConfig& config = context.config;
  const auto make = [&](DType dtype, size_t elements) {
    return Tensor(context.device_memory, Category::workspace, dtype, {elements});
  };
  const size_t rows = batch_ * plan_.most_tokens();
  const DType sums = config.accumulation();
  for (Tensor& buffer : kv_) buffer = make(config.dtype, rows * 2 * keys_);
  for (Tensor& buffer : dkv_) buffer = make(sums, rows * 2 * keys_);
  dkv_of_round_ = make(sums, rows * 2 * keys_);
  partial_ = make(sums, rows * queries_);
  partial_logsumexp_ = make(sums, rows * queries_ / config.model.head_columns());
  if (sums != config.dtype) sum_ = make(sums, rows * queries_);
}

ContextParallel RingAttention::functions() {
  ContextParallel functions;
  functions.forward = [this](Stream& stream, TensorView out, TensorView logsumexp,
                             ConstTensorView qkv, AttentionMask mask) {
    check(mask == AttentionMask::causal, "ring attention has a causal mask");
    forward(stream, out, logsumexp, qkv);
  };
  functions.backward = [this](Stream& stream, TensorView dqkv, TensorView row_dot,
                              ConstTensorView dout, ConstTensorView out, ConstTensorView logsumexp,
                              ConstTensorView qkv, AttentionMask) {
    backward(stream, dqkv, row_dot, dout, out, logsumexp, qkv);
  };
  return functions;
}

size_t RingAttention::owner_at(size_t round) const {
  return (ring_.rank() + 2 * ring_.size() - round) % ring_.size();
}

TensorView RingAttention::of_owner(const Tensor& buffer, size_t round) const {
  return buffer.view().elements(0, {batch_, plan_.num_tokens(owner_at(round)), 2 * keys_});
}

TensorView RingAttention::at(const std::array<Tensor, 2>& buffers, size_t round) const {
  return of_owner(buffers[round % 2], round);
}

void RingAttention::begin_ring(Stream& stream, ConstTensorView qkv) {
  copy_columns(stream, as_rows(at(kv_, 0)), 0, as_rows(qkv), queries_, 2 * keys_);
}

RingAttention::Exchange RingAttention::pass_on(Stream& stream, const std::array<Tensor, 2>& buffers,
                                               size_t round) {
  const size_t n = ring_.size(), rank = ring_.rank();
  const CallOptions options = {.purpose = Purpose::activation, .background = true};
  Exchange exchange;
  const auto send = [&] {
    exchange.send = ring_.send(stream, at(buffers, round), (rank + 1) % n, options);
  };
  // A send may last until the peer receives. If all ranks sent first, all would wait.
  if (rank % 2 == 0) send();
  exchange.recv = ring_.recv(stream, at(buffers, round + 1), (rank + n - 1) % n, options);
  if (rank % 2 == 1) send();
  return exchange;
}

void RingAttention::wait(Stream& stream, Exchange& exchange) {
  exchange.send.wait(stream);
  exchange.recv.wait(stream);
}

void RingAttention::forward(Stream& stream, TensorView out, TensorView logsumexp,
                            ConstTensorView qkv) {
  const bool is_rounded = !sum_.view().empty();
  const TensorView sum = is_rounded ? sum_.view().elements(0, out.shape()) : out;
  const TensorView partial = partial_.view().elements(0, out.shape());
  const TensorView partial_logsumexp = partial_logsumexp_.view().elements(0, logsumexp.shape());
  begin_ring(stream, qkv);
  for (size_t round = 0; round < ring_.size(); ++round) {
    const bool is_last = round + 1 == ring_.size();
    Exchange next = is_last ? Exchange() : pass_on(stream, kv_, round);
    const TensorView kv = at(kv_, round);
    const std::optional<ScoreTile> tile = plan_.tile(ring_.rank(), owner_at(round));
    if (round == 0) {  // the rank's own keys: every query sees one of them at least
      attention_of_tile_forward(stream, sum, logsumexp, qkv, kv, *tile);
    } else if (tile) {
      attention_of_tile_forward(stream, partial, partial_logsumexp, qkv, kv, *tile);
      attention_merge(stream, sum, logsumexp, partial, partial_logsumexp, tile->first_query,
                      tile->num_queries);
    }
    wait(stream, next);
  }
  if (is_rounded) cast(stream, out, sum);
}

void RingAttention::backward(Stream& stream, TensorView dqkv, TensorView row_dot,
                             ConstTensorView dout, ConstTensorView out, ConstTensorView logsumexp,
                             ConstTensorView qkv) {
  const size_t n = ring_.size();
  const TensorView dq = partial_.view().elements(0, out.shape());
  fill(stream, dq, 0);
  attention_row_dot(stream, row_dot, dout, out);
  begin_ring(stream, qkv);
  Exchange gradients;
  for (size_t round = 0; round < n; ++round) {
    Exchange next = round + 1 == n ? Exchange() : pass_on(stream, kv_, round);
    // The gradients of these keys, from the ranks before, may still be on their way. What this rank
    // adds is computed meanwhile, in memory of its own.
    const TensorView sum = at(dkv_, round);
    const TensorView of_round = round == 0 ? sum : of_owner(dkv_of_round_, round);
    const std::optional<ScoreTile> tile = plan_.tile(ring_.rank(), owner_at(round));
    if (tile) {
      fill(stream, of_round, 0);
      attention_of_tile_backward(stream, dq, of_round, row_dot, dout, logsumexp, qkv,
                                 at(kv_, round), *tile);
    }
    wait(stream, gradients);
    if (tile && round > 0) add(stream, sum, sum, of_round);
    gradients = pass_on(stream, dkv_, round);
    wait(stream, next);
  }
  wait(stream, gradients);
  const TensorView own = at(dkv_, n);
  copy_columns(stream, as_rows(dqkv), 0, as_rows(dq), 0, queries_);
  copy_columns(stream, as_rows(dqkv), queries_, as_rows(own), 0, 2 * keys_);
}

}  // namespace ladder
