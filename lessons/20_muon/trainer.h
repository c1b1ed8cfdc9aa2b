// Lesson 20: Muon, an optimizer that needs whole matrices.
#pragma once

#include <string>

#include "common/train/trainer/ranks.h"
#include "lessons/02_ddp/data_parallel.h"
#include "lessons/03_zero1/zero_flags.h"

namespace ladder {

// MuonTrainer is lesson 03 with another optimizer. A rank still has the moments of its shard of
// every unit, and a shard cuts matrices, which Muon makes orthogonal as wholes. So each weight has
// a home: a rank that receives its parts, makes its matrices orthogonal, and sends back parts of
// the result.
// [Jordan24; Liu25, section 2.3]
class MuonTrainer final : public Trainer {
 public:
  struct Flags {
    std::string homes = "longest-first";  // or in-turn; or everywhere (whole moments on all ranks)
    void add_to(FlagTable& flags);
    bool are_everywhere() const { return homes == "everywhere"; }
    ZeroFlags zero() const { return {.stage = are_everywhere() ? size_t{0} : 1}; }
    HomeChoice choice() const;
  };
  // Throws a UserError if homes are chosen for AdamW, which has none.
  static void adjust(Flags& flags, RunConfig& config);
  static std::string describe(const Flags& flags, const RunConfig& config, const ProcessGrid& grid,
                              const SharedPlan&);
  static constexpr Lesson<Flags> kLesson = {
      .info = {.name = "20_muon",
               .description = "Trains a model with Muon; each weight has a home among the ranks.",
               .gives_matrices = true,
               .optimizer = "muon"},
      .adjust = adjust,
      .describe = describe};

  MuonTrainer(const TrainerContext& context, const Flags& flags);
  ModelState& state() override { return state_; }
  StepResult step() override;
  double evaluate(size_t num_batches) override { return share_.evaluate(model_, num_batches); }
  // Throws an Error that names a rank unless all ranks have the same parameters to the bit.
  void check_replicas() override;

 private:
  TrainerContext context_;
  Communicator& ranks_;
  Layout layout_;
  ModelState state_;
  ModelRunner model_;
  DataParallel share_;
  std::unique_ptr<GradientSync> sync_;
};

}  // namespace ladder
