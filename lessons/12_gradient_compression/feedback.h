// Error feedback: what compression has left out so far, to be sent later.
#pragma once

#include <utility>
#include <vector>

#include "common/checkpoint/reader.h"
#include "common/checkpoint/writer.h"
#include "common/train/trainer/model_state.h"
#include "common/train/trainer/ranks.h"

namespace ladder {

// Feedback has two parts: what this rank has not sent of its own gradients, which is as large as
// these; and what it has left out of the sums that it adds up for all. Both are state of the
// optimizer, and count as such: they decide the steps to come. [Seide14, Tang21]
class Feedback {
 public:
  // Elements of the flat buffer of gradients.
  struct Range {
    size_t begin, elements;
  };

  // No feedback: all views are empty.
  Feedback(const TrainerContext& context, ModelState& state)
      : Feedback(context, state, {}, false) {}
  // Allocates memory in the gradients' dtype, for all gradients and for the sums `owned`. The
  // context and the state must outlive this object.
  Feedback(const TrainerContext& context, ModelState& state, std::vector<Range> owned)
      : Feedback(context, state, std::move(owned), true) {}

  // Returns what is held back of elements of the flat buffer, and of sum `index` of those owned.
  TensorView sent(size_t begin, size_t elements) const;
  TensorView owned(size_t index) const;

  // Returns what is held back of all elements.
  TensorView all() const { return sent_; }

  // Sets padding to zero, in the gradients and in what is held: a codec that knows no zero makes
  // something of it, which would count in the norm, and which checkpoints do not have.
  void clear_padding();

  // Returns all of it, for a checkpoint.
  std::vector<NamedSlice> stored() const;
  // Sets it to what the checkpoint has. If that was written without feedback, or by another number
  // of ranks, feedback begins with zero, and rank 0 says so.
  void restore(CheckpointReader& checkpoint);

 private:
  Feedback(const TrainerContext& context, ModelState& state, std::vector<Range> owned,
           bool is_kept);
  std::vector<Slice> sent_slices() const;
  std::vector<Slice> owned_slices() const;

  ModelState& state_;
  const Layout& layout_;  // of gradients
  size_t rank_, num_ranks_;
  std::vector<Range> ranges_;
  Tensor sent_, owned_;
};

}  // namespace ladder
