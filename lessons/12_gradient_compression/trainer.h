// Lesson 12: gradient compression. Data parallel as lesson 02, with fewer bytes between ranks.
#pragma once

#include <memory>

#include "common/train/trainer/gradient_sync.h"
#include "common/train/trainer/ranks.h"
#include "lessons/02_ddp/data_parallel.h"
#include "lessons/12_gradient_compression/compression_flags.h"
#include "lessons/12_gradient_compression/feedback.h"

namespace ladder {

// CompressionTrainer encodes gradients before it sends them. Without compression it is lesson 02 to
// the bit.
class CompressionTrainer final : public Trainer {
 public:
  struct Flags {
    CompressionFlags compression = {};
    size_t bucket_bytes = size_t{25} << 20;
    bool no_overlap = false;
    void add_to(FlagTable& flags);
  };
  static constexpr Lesson<Flags> kLesson = {
      {"12_gradient_compression",
       "Trains a model on several ranks that send gradients in fewer bits."}};

  CompressionTrainer(const TrainerContext& context, const Flags& flags);
  ModelState& state() override { return state_; }
  StepResult step() override;
  double evaluate(size_t num_batches) override { return share_.evaluate(model_, num_batches); }
  // A checkpoint also has the error feedback.
  std::vector<NamedSlice> stored() override;
  void restore(CheckpointReader& checkpoint) override;
  // Throws an Error that names a rank unless all replicas are the same to the bit.
  void check_replicas() override;

 private:
  void make_sync(const Flags& flags);

  TrainerContext context_;
  Communicator& ranks_;
  Layout layout_;
  ModelState state_;
  ModelRunner model_;
  DataParallel share_;
  std::unique_ptr<GradientSync> sync_;
  Feedback* feedback_ = nullptr;  // of sync_; null if it has none
};

}  // namespace ladder
