#include "lessons/12_gradient_compression/power_sgd.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/orthonormalize.h"
#include "kernels/runtime/random.h"

namespace ladder {

std::vector<PowerSgdBucket> make_power_sgd_buckets(const Layout& layout,
                                                   const std::vector<Bucket>& buckets,
                                                   size_t rank) {
  std::vector<PowerSgdBucket> all;
  for (const auto& [last_unit, offset, num_elements] : buckets) {
    PowerSgdBucket& bucket = all.emplace_back();
    bucket.last_unit = last_unit;
    for_parameters_in(layout, offset, offset + num_elements,
                      [&](const Parameter& parameter, size_t begin, size_t, size_t) {
                        const Shape& shape = parameter.shape;
                        const size_t elements = shape.num_elements();
                        const bool is_matrix =
                            shape.num_dims() == 2 && (shape[0] + shape[1]) * rank < elements;
                        if (!is_matrix) {
                          bucket.vectors.push_back({begin, elements, bucket.first_elements});
                          bucket.first_elements += elements;
                          return;
                        }
                        bucket.matrices.push_back({&parameter, begin, shape[0], shape[1],
                                                   bucket.first_elements, bucket.second_elements});
                        bucket.first_elements += rank * shape[0];
                        bucket.second_elements += rank * shape[1];
                      });
  }
  return all;
}

namespace {

Feedback make_feedback(const TrainerContext& context, ModelState& state) {
  if (context.ranks->world.size() == 1) return Feedback(context, state);
  return Feedback(context, state, {});
}

}  // namespace

PowerSgdSync::PowerSgdSync(const TrainerContext& context, ModelState& state,
                           const std::vector<Bucket>& buckets, size_t rank, bool overlap)
    : CompressionSync(state, make_feedback(context, state)),
      ranks_(context.ranks->world),
      seed_(context.config.seed),
      rank_(rank),
      overlap_(overlap),
      buckets_(make_power_sgd_buckets(state.layout().trained(), buckets, rank)),
      first_sums_(buckets_.size()),
      second_sums_(buckets_.size()) {
  if (ranks_.size() == 1) return;
  const auto make = [&](Category category, size_t elements, MemorySource* source) {
    return elements == 0 ? Tensor()
                         : Tensor(context.device_memory, category, state.gradients.dtype(),
                                  {elements}, source);
  };
  size_t most_rows = 0;
  for (const PowerSgdBucket& bucket : buckets_) {
    MemorySource* const source = context.ranks->registered;
    first_.push_back(make(Category::communication, bucket.first_elements, source));
    second_.push_back(make(Category::communication, bucket.second_elements, source));
    for (const auto& matrix : bucket.matrices) most_rows = std::max(most_rows, matrix.rows);
  }
  scratch_ = make(Category::workspace, rank * most_rows, nullptr);
}

TensorView PowerSgdSync::in_flat(const PowerSgdBucket::Matrix& matrix, TensorView flat) const {
  return flat.elements(matrix.offset, {matrix.rows, matrix.columns});
}
TensorView PowerSgdSync::p_of(const PowerSgdBucket::Matrix& matrix, size_t bucket) const {
  return first_[bucket].view().elements(matrix.p, {rank_, matrix.rows});
}
TensorView PowerSgdSync::q_of(const PowerSgdBucket::Matrix& matrix, size_t bucket) const {
  return second_[bucket].view().elements(matrix.q, {rank_, matrix.columns});
}

void PowerSgdSync::begin_q(const PowerSgdBucket::Matrix& matrix, TensorView q) {
  const uint64_t key = random_key(seed_, "powersgd " + matrix.parameter->name);
  if (state_.optimizer.num_updates == 0) return fill_normal(state_.stream(), q, key, 0, 1);
  const uint64_t first = static_cast<uint64_t>(state_.step) << 32;
  const TensorView moment = state_.optimizer.first_buffer();
  if (moment.empty()) return fill_normal(state_.stream(), q, key, first, 1);
  const TensorView random = scratch_.view().elements(0, {rank_, matrix.rows});
  fill_normal(state_.stream(), random, key, first, 1);
  matmul(state_.stream(), q, random, in_flat(matrix, moment));
}

void PowerSgdSync::send_first(size_t bucket) {
  Stream& stream = state_.stream();
  for (const auto& matrix : buckets_[bucket].matrices) {
    const TensorView held = in_flat(matrix, feedback_.all());
    add(stream, held, held, in_flat(matrix, state_.gradients));
    begin_q(matrix, q_of(matrix, bucket));
    matmul(stream, p_of(matrix, bucket), q_of(matrix, bucket), held, {.transpose_b = true});
  }
  for (const auto& [offset, elements, at] : buckets_[bucket].vectors) {
    copy(stream, first_[bucket].view().rows(at, elements),
         state_.gradients.view().rows(offset, elements));
  }
  first_sums_[bucket] = ranks_.all_reduce(stream, first_[bucket],
                                          {.purpose = Purpose::gradient, .background = overlap_});
}

void PowerSgdSync::send_second(size_t bucket) {
  Stream& stream = state_.stream();
  first_sums_[bucket].wait(stream);
  for (const auto& [offset, elements, at] : buckets_[bucket].vectors) {
    copy(stream, state_.gradients.view().rows(offset, elements),
         first_[bucket].view().rows(at, elements));
  }
  if (buckets_[bucket].matrices.empty()) return;
  for (const auto& matrix : buckets_[bucket].matrices) {
    const TensorView held = in_flat(matrix, feedback_.all());
    const TensorView p = p_of(matrix, bucket), q = q_of(matrix, bucket);
    orthonormalize(stream, p);
    matmul(stream, q, p, held);
    // held -= P Q^T, of this rank's own Q
    const TensorView minus_p = scratch_.view().elements(0, p.shape());
    scale(stream, minus_p, p, -1);
    matmul(stream, held, minus_p, q, {.transpose_a = true, .accumulate = true});
  }
  second_sums_[bucket] = ranks_.all_reduce(stream, second_[bucket],
                                           {.purpose = Purpose::gradient, .background = overlap_});
}

void PowerSgdSync::decode(size_t bucket) {
  second_sums_[bucket].wait(state_.stream());
  for (const auto& matrix : buckets_[bucket].matrices) {
    matmul(state_.stream(), in_flat(matrix, state_.gradients), p_of(matrix, bucket),
           q_of(matrix, bucket), {.transpose_a = true});
  }
}

void PowerSgdSync::advance(size_t bucket) {
  const size_t count = buckets_.size();
  if (bucket < count) send_first(bucket);
  if (bucket >= 1 && bucket - 1 < count) send_second(bucket - 1);
  if (bucket >= 2 && bucket - 2 < count) decode(bucket - 2);
  next_ = bucket + 1;
}

Hooks PowerSgdSync::hooks() {
  next_ = 0;
  Hooks hooks;
  if (!overlap_ || ranks_.size() == 1) return hooks;
  hooks.done = [this](const Use& use) {
    if (use.gradient_is_final && use.unit == buckets_[next_].last_unit) advance(next_);
  };
  return hooks;
}

void PowerSgdSync::wait() {
  if (ranks_.size() == 1) return;
  while (next_ < buckets_.size() + 2) advance(next_);
}

}  // namespace ladder
