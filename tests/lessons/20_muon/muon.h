// Runs with Muon.
#pragma once

#include "common/model/muon.h"
#include "common/model/train_choice.h"
#include "common/train/trainer/replicas.h"
#include "tests/lessons/sharded.h"

namespace ladder::testing {

inline RunConfig with_muon(RunConfig config) {
  config.optimizer.name = "muon";
  return config;
}

// The matrices of the model that Muon updates.
inline size_t num_matrices(const RunConfig& config) {
  size_t matrices = 0;
  const Layout layout(config.model, 1);
  for (const Unit& unit : layout.units()) {
    for (const Parameter& p : unit.parameters) {
      if (!p.trainable || !is_muons(p.matrix)) continue;
      matrices += muon_matrices(config.optimizer, p).size();
    }
  }
  return matrices;
}

}  // namespace ladder::testing
