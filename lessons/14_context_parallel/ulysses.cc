#include "lessons/14_context_parallel/ulysses.h"

#include <functional>
#include <utility>

#include "common/train/trainer/ranks.h"
#include "kernels/columns.h"

namespace ladder {
namespace {

// Returns how many tokens of `batch` sequences each rank sends to each other one.
PairCounts counts_of(const SlicePlan& plan, size_t batch) {
  const size_t n = plan.num_ranks();
  std::vector<size_t> counts;
  for (size_t from = 0; from < n; ++from) {
    counts.insert(counts.end(), n, plan.num_tokens(from) * batch);
  }
  return PairCounts(n, std::move(counts));
}

// Returns the memory at which `view` begins, with another shape.
template <class View>
View in_place_of(View view, const Shape& shape) {
  return View(view.data(), view.dtype(), view.device(), shape);
}

}  // namespace

UlyssesAttention::UlyssesAttention(const TrainerContext& context, SlicePlan plan,
                                   Communicator& ranks, const Heads& heads)
    : plan_(std::move(plan)),
      ranks_(ranks),
      batch_(context.config.micro_batch_size),
      queries_(heads.num_queries * heads.head_size),
      keys_(heads.num_keys * heads.head_size),
      qkv_shape_({batch_, plan_.num_tokens(), (queries_ + 2 * keys_) / ranks.size()}),
      out_shape_({batch_, plan_.num_tokens(), queries_ / ranks.size()}),
      rows_shape_({batch_, heads.num_queries / ranks.size(), plan_.num_tokens()}),
      counts_(counts_of(plan_, batch_)) {
  const auto make = [&](const Shape& shape, MemorySource* source = nullptr) {
    return Tensor(context.device_memory, Category::workspace, context.config.dtype, shape, source);
  };
  // No less than qkv_shape_.
  const Shape most = {batch_ * plan_.most_tokens() * (queries_ + 2 * keys_)};
  sent_ = make(most, context.ranks->registered);
  received_ = make(most, context.ranks->registered);
  out_ = make(out_shape_);
  dout_ = make(out_shape_);
}

ContextParallel UlyssesAttention::functions() {
  return {std::bind_front(&UlyssesAttention::forward, this),
          std::bind_front(&UlyssesAttention::backward, this)};
}

void UlyssesAttention::forward(Stream& stream, TensorView out, TensorView logsumexp, TensorView qkv,
                               AttentionMask mask) {
  const TensorView qkv_of_heads = in_place_of(qkv, qkv_shape_);
  to_heads(stream, qkv_of_heads, qkv);
  attention_forward(stream, out_, in_place_of(logsumexp, rows_shape_), qkv_of_heads, mask);
  to_tokens(stream, out, out_);
}

void UlyssesAttention::backward(Stream& stream, TensorView dqkv, TensorView row_dot,
                                ConstTensorView dout, ConstTensorView out,
                                ConstTensorView logsumexp, ConstTensorView qkv,
                                AttentionMask mask) {
  const TensorView dqkv_of_heads = in_place_of(dqkv, qkv_shape_);
  to_heads(stream, out_, out);
  to_heads(stream, dout_, dout);
  attention_backward(stream, dqkv_of_heads, in_place_of(row_dot, rows_shape_), dout_, out_,
                     in_place_of(logsumexp, rows_shape_), in_place_of(qkv, qkv_shape_), mask);
  to_tokens(stream, dqkv, dqkv_of_heads);
}

void UlyssesAttention::to_heads(Stream& stream, TensorView of_heads, ConstTensorView of_tokens) {
  const size_t width = of_heads.shape()[2];
  const TensorView sent = sent_.view().elements(0, of_tokens.shape());
  const TensorView received = received_.view().elements(0, of_heads.shape());
  for_messages(sent, of_tokens,
               [&](TensorView message, size_t first, ConstTensorView rows, size_t at,
                   size_t count) { copy_columns(stream, message, first, rows, at, count); });
  ranks_.all_to_all(stream, received, sent, counts_.times(width), {Purpose::activation})
      .wait(stream);
  const TensorView sequences = of_heads.reshape({batch_, plan_.num_tokens() * width});
  for_slices(received, width, [&](size_t first, TensorView part_of_rank, size_t at, size_t count) {
    copy_columns(stream, sequences, first, part_of_rank, at, count);
  });
}

void UlyssesAttention::to_tokens(Stream& stream, TensorView of_tokens, ConstTensorView of_heads) {
  const size_t width = of_heads.shape()[2];
  const TensorView sent = sent_.view().elements(0, of_heads.shape());
  const TensorView received = received_.view().elements(0, of_tokens.shape());
  const ConstTensorView sequences = of_heads.reshape({batch_, plan_.num_tokens() * width});
  for_slices(sent, width, [&](size_t first, TensorView part_of_rank, size_t at, size_t count) {
    copy_columns(stream, part_of_rank, at, sequences, first, count);
  });
  const PairCounts counts = counts_.reversed().times(width);
  ranks_.all_to_all(stream, received, sent, counts, {Purpose::activation}).wait(stream);
  for_messages(received, of_tokens,
               [&](ConstTensorView message, size_t first, TensorView rows, size_t at,
                   size_t count) { copy_columns(stream, rows, at, message, first, count); });
}

template <class View, class Body>
void UlyssesAttention::for_messages(TensorView messages, View of_tokens, Body body) const {
  const size_t n = ranks_.size(), columns = of_tokens.shape()[2];
  // q, k and v of a token lie side by side. If they are equally wide, each is a row of its own.
  std::vector<size_t> groups = {queries_};
  if (keys_ != queries_ && columns > queries_) groups = {queries_, keys_, keys_};
  const size_t row = groups.size() == 1 ? queries_ : columns;
  const Shape all = {of_tokens.num_elements() / row, row}, part = {all[0], row / n};
  for (size_t rank = 0; rank < n; ++rank) {
    const TensorView message = messages.elements(rank * part.num_elements(), part);
    size_t first = 0;
    for (const size_t group : groups) {
      const size_t count = group / n;
      body(message, first / n, of_tokens.reshape(all), first + rank * count, count);
      first += group;
    }
  }
}

template <class Body>
void UlyssesAttention::for_slices(TensorView parts, size_t width, Body body) const {
  size_t begin = 0;
  for (size_t rank = 0; rank < plan_.num_ranks(); ++rank) {
    const TensorView part = parts.elements(begin, {batch_, plan_.num_tokens(rank) * width});
    size_t at = 0;
    for (const SlicePlan::Slice& slice : plan_.slices(rank)) {
      if (slice.count > 0) body(slice.first * width, part, at, slice.count * width);
      at += slice.count * width;
    }
    begin += part.num_elements();
  }
}

}  // namespace ladder
