// The choices that a user has about experts.
#pragma once

#include <optional>

#include "common/io/cli11.h"
#include "common/train/trainer/config.h"

namespace ladder {

struct ExpertFlags {
  size_t experts = 8;                         // E, in a block
  std::optional<size_t> per_token = {};       // k; nothing: 2, or 1 if there is one expert
  size_t every = 2;                           // every how many blocks is one with experts
  size_t parallel_size = 0;                   // ranks that share the experts; 0: as many as fit
  double capacity_factor = 0;                 // 0: no expert is ever full
  double balance_loss = 0.01, z_loss = 1e-3;  // the losses' coefficients

  void add_to(CLI::App& app);

  // Returns what these flags say of the model. Throws UserError if a token would go to more experts
  // than there are.
  ExpertsConfig config() const;
  // Returns how many of `num_ranks` ranks share the experts of a block. Throws UserError if that
  // number divides neither.
  size_t parallel_size_of(size_t num_ranks) const;
  // Adds config() to the configuration of a run. Throws UserError if the model has too few blocks,
  // or if the run asks for something that does not go together with experts.
  void adjust(RunConfig& run) const;
};

}  // namespace ladder
