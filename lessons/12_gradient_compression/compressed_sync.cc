#include "lessons/12_gradient_compression/compressed_sync.h"

#include <algorithm>
#include <utility>

#include "kernels/runtime/random.h"

namespace ladder {
namespace {

size_t largest_bucket(const std::vector<Bucket>& buckets) {
  return std::ranges::max(buckets, {}, &Bucket::num_elements).num_elements;
}

Feedback make_feedback(const TrainerContext& context, ModelState& state,
                       const std::vector<Bucket>& buckets, const CompressedSync::Options& options) {
  const Communicator& ranks = context.ranks->world;
  if (!options.error_feedback || ranks.size() == 1) return Feedback(context, state);
  std::vector<Feedback::Range> owned;  // of each bucket, what this rank adds up
  for (const auto& [last_unit, offset, n] : buckets) {
    const size_t slice = CompressedSum::slice_elements(options.codec, n, ranks.size());
    owned.push_back({offset + ranks.rank() * slice,
                     CompressedSum::own_elements(options.codec, n, ranks.size(), ranks.rank())});
  }
  return Feedback(context, state, std::move(owned));
}

}  // namespace

CompressedSync::CompressedSync(const TrainerContext& context, ModelState& state,
                               std::vector<Bucket> buckets, const Options& options)
    : CompressionSync(state, make_feedback(context, state, buckets, options)),
      ranks_(context.ranks->world),
      buckets_(std::move(buckets)),
      overlap_(options.overlap),
      areas_(context.device_memory, context.ranks->registered, options.codec,
             state.gradients.dtype(), largest_bucket(buckets_), ranks_.size()) {
  const uint64_t key = random_key(context.config.seed, "gradient compression");
  const bool is_kept = !feedback_.all().empty();
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const auto& [last_unit, offset, n] = buckets_[i];
    sums_.emplace_back(
        areas_, state.gradients.view().rows(offset, n),
        CompressedSum::Options{
            .codec = options.codec,
            .rounding = {.stochastic = options.stochastic_rounding, .key = key, .first = offset},
            .sent = feedback_.sent(offset, n),
            .owned = is_kept ? feedback_.owned(i) : TensorView()});
  }
}

void CompressedSync::start(size_t bucket) {
  sums_[bucket].set_round(static_cast<uint64_t>(state_.step));
  started_.push_back(ranks_.all_reduce(state_.stream(), sums_[bucket],
                                       {.purpose = Purpose::gradient, .background = overlap_}));
  next_ = bucket + 1;
}

Hooks CompressedSync::hooks() {
  next_ = 0;
  Hooks hooks;
  if (!overlap_) return hooks;
  hooks.done = [this](const Use& use) {
    if (use.gradient_is_final && use.unit == buckets_[next_].last_unit) start(next_);
  };
  return hooks;
}

void CompressedSync::wait() {
  while (next_ < buckets_.size()) start(next_);
  for (Work& work : started_) work.wait(state_.stream());
  started_.clear();
  feedback_.clear_padding();
}

}  // namespace ladder
