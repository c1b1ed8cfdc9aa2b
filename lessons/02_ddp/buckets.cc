#include "lessons/02_ddp/buckets.h"

#include <utility>

namespace ladder {

std::vector<Bucket> make_buckets(const Layout& layout, DType dtype, size_t bucket_bytes) {
  std::vector<size_t> units;  // in the order in which their gradients become final
  for (const Use& use : training_walk(layout)) {
    if (use.gradient_is_final) units.push_back(use.unit);
  }
  std::vector<Bucket> buckets;
  bool is_full = true;
  for (size_t index : units) {
    const Unit& unit = layout.trained().unit(index);
    // Backward makes gradients final from the end of their buffer to its beginning. So a unit can
    // join the last bucket if it ends where that bucket begins.
    const bool continues = !is_full && unit.offset + unit.padded_elements == buckets.back().offset;
    if (!continues || index == units.back()) buckets.emplace_back();
    Bucket& bucket = buckets.back();
    bucket.last_unit = index;
    bucket.offset = unit.offset;
    bucket.num_elements += unit.padded_elements;
    is_full = bucket.num_elements * size_of(dtype) >= bucket_bytes;
  }
  return buckets;
}

BucketSync::BucketSync(ModelState& state, Communicator& ranks, std::vector<Bucket> buckets,
                       const Options& options)
    : state_(state),
      ranks_(ranks),
      buckets_(std::move(buckets)),
      overlap_(options.overlap),
      gradients_(options.gradients.empty() ? state.gradients.view() : options.gradients) {}

void BucketSync::start(const Bucket& bucket) {
  const TensorView gradients = gradients_.rows(bucket.offset, bucket.num_elements);
  started_.push_back(ranks_.all_reduce(state_.stream(), gradients,
                                       {.purpose = Purpose::gradient, .background = overlap_}));
  ++next_;
}

Hooks BucketSync::hooks() {
  next_ = 0;
  if (!overlap_) return {};
  Hooks hooks;
  hooks.done = [this](const Use& use) {
    if (!use.gradient_is_final || use.unit != buckets_[next_].last_unit) return;
    start(buckets_[next_]);
  };
  return hooks;
}

void BucketSync::wait() {
  while (next_ < buckets_.size()) start(buckets_[next_]);
  for (Work& work : started_) work.wait(state_.stream());
  started_.clear();
}

TensorView BucketSync::summed(size_t unit) const {
  return unit_in_flat(state_.layout().trained(), unit, gradients_);
}

}  // namespace ladder
