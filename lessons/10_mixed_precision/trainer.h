// Lesson 10: mixed precision. The model computes in bf16 or fp16, the optimizer in fp32.
#pragma once

#include <optional>

#include "lessons/02_ddp/data_parallel.h"
#include "lessons/03_zero1/zero_stage.h"
#include "lessons/10_mixed_precision/loss_scaler.h"

namespace ladder {

// Data parallelism as in lesson 02, or with ZeRO-1 as in lesson 03. Parameters, activations and the
// gradients of activations are bf16 or fp16; gradients of parameters, their sums, the norm, the
// moments and the masters that AdamW updates are fp32. [Micikevicius18]
class MixedPrecisionTrainer {
 public:
  static constexpr LessonInfo kLesson = {"10_mixed_precision",
                                         "Trains a GPT-2 in bf16 or fp16, with fp32 where it "
                                         "matters.",
                                         Precisions::all};
  static constexpr bool kDistributed = true;

  struct Flags {
    LossScaleFlags scale = {};
    ZeroFlags zero = {};
    std::optional<DType> reduce_dtype = {};  // fp32, bf16 or fp16; none: that of the gradients
    bool no_master_weights = false;
    void add_to(CLI::App& app);
  };

  // With P padded parameters, N ranks, x bytes an element of --dtype and r of --reduce-dtype:
  // parameters P x, gradients 4 P, optimizer 12 P (ZeRO-1: 12 P / N; 8 where x is 4), communication
  // P r if r is not 4. Each step sums P r bytes of gradients, and with ZeRO-1 gathers P x bytes of
  // parameters.
  static Prediction predict(const RunConfig& config, const ProcessGrid& grid, const Flags& flags);

  MixedPrecisionTrainer(const TrainerContext& context, const Flags& flags)
      : MixedPrecisionTrainer(context, Layout(context.config.model, context.grid.data_size),
                              flags) {}

  // A step whose gradients overflow on any rank is skipped on all: no update, no time of AdamW's,
  // no step of the learning rate's schedule.
  StepResult step();
  double evaluate(size_t num_batches) { return ranks_.evaluate(num_batches); }
  void visit(TensorKind kind, const TensorSink& sink);
  void check_replicas() { check_copies(replica_, {{world_}}); }

 private:
  MixedPrecisionTrainer(const TrainerContext& context, const Layout& layout, const Flags& flags);
  void update(AdamWStep step);

  Communicator& world_;
  Flags flags_;
  Replica replica_;
  DataParallel ranks_;
  Tensor reduced_;  // gradients on their way, in --reduce-dtype, if that is another than theirs
  ZeroStage zero_;
  Stream host_stream_{DeviceType::cpu};
  Tensor unscaled_;  // one gradient for a dump, on rank 0 where there is a loss scale
  LossScaler scaler_;
  double last_scale_ = 1;  // of the gradients in memory
  int64_t step_ = 0, num_updates_ = 0;
};

}  // namespace ladder
