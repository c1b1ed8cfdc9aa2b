#include "lessons/12_gradient_compression/feedback.h"

#include <algorithm>
#include <utility>

#include "common/io/standard_streams.h"
#include "kernels/elementwise.h"

namespace ladder {
namespace {

// Names the two parts among the tensors of a checkpoint.
std::string sent_kind(size_t rank) { return concat("feedback_of_rank_", rank); }
constexpr std::string_view kOwned = "feedback_of_sum";

void add_named(std::vector<NamedSlice>& all, std::string_view kind,
               const std::vector<Slice>& slices) {
  for (const Slice& slice : slices) {
    all.push_back({concat(kind, ".", slice.parameter->name), slice});
  }
}

}  // namespace

Feedback::Feedback(const TrainerContext& context, ModelState& state, std::vector<Range> owned,
                   bool is_kept)
    : state_(state),
      layout_(state.layout().trained()),
      rank_(context.ranks->world.rank()),
      num_ranks_(context.ranks->world.size()),
      ranges_(std::move(owned)) {
  if (!is_kept) return;
  const auto make = [&](size_t elements) {
    return Tensor(context.device_memory, Category::optimizer, state.gradients.dtype(), {elements});
  };
  sent_ = make(layout_.num_elements());
  size_t num_owned = 0;
  for (const Range& range : ranges_) num_owned += range.elements;
  if (num_owned > 0) owned_ = make(num_owned);
}

TensorView Feedback::sent(size_t begin, size_t elements) const {
  return sent_.view().empty() ? TensorView() : sent_.view().rows(begin, elements);
}

TensorView Feedback::owned(size_t index) const {
  size_t first = 0;
  for (size_t i = 0; i < index; ++i) first += ranges_[i].elements;
  return owned_.view().empty() ? TensorView() : owned_.view().rows(first, ranges_[index].elements);
}

void Feedback::clear_padding() {
  for (const Unit& unit : layout_.units()) {
    const size_t begin = unit.offset + unit.num_elements, end = unit.offset + unit.padded_elements;
    if (begin == end) continue;
    fill(state_.stream(), state_.gradients.view().rows(begin, end - begin), 0);
    if (sent_.view().empty()) continue;
    fill(state_.stream(), sent(begin, end - begin), 0);
    for (size_t i = 0; i < ranges_.size(); ++i) {
      const size_t first = ranges_[i].begin;
      const size_t from = std::max(begin, first), to = std::min(end, first + ranges_[i].elements);
      if (from < to) fill(state_.stream(), owned(i).rows(from - first, to - from), 0);
    }
  }
}

std::vector<Slice> Feedback::sent_slices() const { return held_slices(layout_, rank_, sent_); }

std::vector<Slice> Feedback::owned_slices() const {
  std::vector<Slice> slices;
  for (size_t i = 0; i < ranges_.size(); ++i) {
    const size_t begin = ranges_[i].begin, end = begin + ranges_[i].elements;
    for_parameters_in(
        layout_, begin, end, [&](const Parameter& parameter, size_t at, size_t from, size_t to) {
          slices.push_back({&parameter, from - at, owned(i).rows(from - begin, to - from)});
        });
  }
  return slices;
}

std::vector<NamedSlice> Feedback::stored() const {
  std::vector<NamedSlice> slices;
  if (sent_.view().empty()) return slices;
  add_named(slices, sent_kind(rank_), sent_slices());
  add_named(slices, kOwned, owned_slices());
  return slices;
}

void Feedback::restore(CheckpointReader& checkpoint) {
  if (sent_.view().empty()) return;
  const CheckpointIndex& index = checkpoint.index();
  const std::string& name = sent_slices().front().parameter->name;
  const auto has = [&](std::string_view kind) {
    return index.tensors.contains(concat(kind, ".", name));
  };
  const size_t ranks_then = index.layout.world_size();
  const bool has_sums = ranges_.empty() || has(kOwned);
  if (has(sent_kind(rank_)) && has_sums && ranks_then == num_ranks_) {
    state_.restore(checkpoint, sent_kind(rank_), sent_slices());
    if (!ranges_.empty()) state_.restore(checkpoint, kOwned, owned_slices());
    return;
  }
  if (rank_ > 0) return;
  print(concat("  resumed  error feedback starts from zero: the checkpoint ",
               has(sent_kind(0)) && has_sums
                   ? concat("has that of ", counted(ranks_then, "rank"), ", not of ", num_ranks_)
                   : std::string("has none that fits"),
               "\n"));
}

}  // namespace ladder
