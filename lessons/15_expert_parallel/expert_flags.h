// The choices that a user has about experts.
#pragma once

#include <optional>

#include "common/train/trainer/config.h"
#include "common/train/trainer/flag_value.h"

namespace ladder {

struct ExpertFlags {
  static constexpr size_t kExperts = 8;  // the default; presets with experts have as many
  // E, in a block; nothing: 8, or the preset's. k; nothing: 2, or 1 if there is one expert, or the
  // preset's. Every how many blocks is one with experts; nothing: 2, or the preset's.
  std::optional<size_t> experts = {}, per_token = {}, every = {};
  size_t parallel_size = 0;                   // ranks that share the experts; 0: as many as fit
  double capacity_factor = 0;                 // 0: no expert is ever full
  double balance_loss = 0.01, z_loss = 1e-3;  // the losses' coefficients

  void add_to(FlagTable& flags);

  // Returns what these flags say of a preset's experts, of which it may have none. Throws UserError
  // if a token would go to more experts than there are.
  ExpertsConfig config(const ExpertsConfig& preset = {}) const;
  // Returns how many of `num_ranks` ranks share the experts of a block. Throws UserError if that
  // number does not divide both. REQUIRES: for the right number, adjust() or `experts`: how many
  // there are.
  size_t parallel_size_of(size_t num_ranks) const;
  // Sets the experts of a run, and in these flags how many they are. Throws UserError if the model
  // has too few blocks, or if the run asks for something that does not go together with experts.
  void adjust(RunConfig& run);
};

}  // namespace ladder
