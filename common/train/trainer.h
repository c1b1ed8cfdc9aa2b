// What a lesson's trainer is.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <optional>

#include "common/comm/grid_groups.h"
#include "common/data/corpus.h"
#include "common/model/layout.h"
#include "common/train/config.h"
#include "common/train/options.h"
#include "common/train/trace.h"
#include "kernels/runtime/stream.h"

namespace ladder {

// What one rank will use, known before anything is allocated.
struct Prediction {
  MemoryUse device, host;  // peak bytes by category
  Ledger::Entries step;    // what a step communicates on each axis, but for control traffic
};

// One optimizer step on the global batch; the same on every rank.
struct StepResult {
  double loss = 0;       // mean over all tokens of the global batch, in nats
  double grad_norm = 0;  // global, before clipping
  double learning_rate = 0;
  // That gradients were computed with; none in trainers that never scale.
  std::optional<double> loss_scale = {};
  bool skipped = false;  // gradients overflowed: nothing was updated
};

enum class TensorKind { param, grad, exp_avg, exp_avg_sq };

// Receives one full tensor of the model in host memory, valid during the call. The Parameter is as
// the rank that holds it (or a slice of it) knows it: its name and full_shape are the model's, its
// offset and shape may be those of a part.
using TensorSink = std::function<void(const Parameter&, ConstTensorView)>;

// What a trainer works with. All outlive it.
struct TrainerContext {
  const RunConfig& config;
  const ProcessGrid& grid;
  const Corpus& corpus;
  Memory& device_memory;
  Memory& host_memory;
  Stream& stream;
  // For trainers on several ranks: the group of all, and where memory comes from that its
  // operations work on without copies (null: from the system).
  Communicator* world = nullptr;
  MemorySource* registered = nullptr;
  Trace* trace = nullptr;        // null: no timeline is wanted
  GridGroups* groups = nullptr;  // for trainers that arrange ranks on several axes
};

// A trainer is a class with
//   kLesson                  its name and description
//   Flags                    its own options: void add_to(CLI::App&); optional: outputs(),
//                            the files (NamedFile) that they name for rank 0 to write
//   predict                  static: bytes by category, before anything is allocated
//   a constructor            allocates and initializes
//   StepResult step()        one optimizer step on the next global batch
//   double evaluate(n)       mean loss over n global batches of the validation split, always the
//                            same ones
//   check_replicas()         optional: throws Error unless copies on several ranks are identical
//   kDistributed             optional: true if it runs on several ranks
//   arrange(flags, n, rank)  optional, static: the grid of n ranks as one of them sees it; without
//                            it all share the global batch. UserError where n ranks make none
//   describe(config, grid, flags)  optional, static: more lines for the header
//   report()                 optional: lines for the end, on rank 0; collective
//   visit(kind, sink)        full tensors of one kind to rank 0's sink, one at a time, in layout
//                            order
template <class T>
concept Trainer = requires(T trainer, typename T::Flags flags, const TrainerContext& context,
                           CLI::App& app) {
  { T::kLesson } -> std::convertible_to<const LessonInfo&>;
  flags.add_to(app);
  { T::predict(context.config, context.grid, flags) } -> std::same_as<Prediction>;
  T(context, flags);
  { trainer.step() } -> std::same_as<StepResult>;
  { trainer.evaluate(size_t{1}) } -> std::same_as<double>;
  trainer.visit(TensorKind::param, TensorSink());
};

}  // namespace ladder
