#include "lessons/02_ddp/buckets.h"

#include <utility>

#include "kernels/elementwise.h"

namespace ladder {

std::vector<Bucket> make_buckets(const Layout& layout, DType dtype, size_t bucket_bytes) {
  std::vector<Bucket> buckets;
  bool open = false;
  for (size_t unit = layout.units().size(); unit-- > 0;) {
    if (!open || unit == layout.token_embedding()) buckets.emplace_back();
    const Unit& u = layout.unit(unit);
    Bucket& bucket = buckets.back();
    bucket.last_unit = unit;
    bucket.offset = u.offset;  // units are walked from the end: this one lies before the others
    bucket.num_elements += u.padded_elements;
    open = bucket.num_elements * size_of(dtype) < bucket_bytes;
  }
  return buckets;
}

BucketReducer::BucketReducer(TensorView gradients, Communicator& world, std::vector<Bucket> buckets,
                             bool overlap, TensorView reduced)
    : gradients_(gradients),
      reduced_(reduced),
      world_(world),
      buckets_(std::move(buckets)),
      overlap_(overlap) {}

void BucketReducer::start(Stream& stream, const Bucket& bucket) {
  TensorView summed = gradients_.rows(bucket.offset, bucket.num_elements);
  if (!reduced_.empty()) {
    cast(stream, reduced_.rows(bucket.offset, bucket.num_elements), summed);
    summed = reduced_.rows(bucket.offset, bucket.num_elements);
  }
  started_.push_back(
      world_.all_reduce(stream, summed, {.purpose = Purpose::gradient, .background = overlap_}));
  ++next_;
}

Hooks BucketReducer::hooks(Stream& stream) {
  next_ = 0;
  if (!overlap_) return {};
  Hooks hooks;
  hooks.done = [this, &stream](size_t unit, Pass pass) {
    if (pass != Pass::backward || unit != buckets_[next_].last_unit) return;
    start(stream, buckets_[next_]);
  };
  return hooks;
}

void BucketReducer::wait(Stream& stream) {
  while (next_ < buckets_.size()) start(stream, buckets_[next_]);
  for (Work& work : started_) work.wait(stream);
  started_.clear();
  if (!reduced_.empty()) cast(stream, gradients_, reduced_);
}

}  // namespace ladder
