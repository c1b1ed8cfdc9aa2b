// The choice between ZeRO stages 0 and 1, which differ in how ranks sum gradients and update.
#pragma once

#include <memory>

#include "common/comm/communicator.h"
#include "common/train/trainer/flag_value.h"
#include "common/train/trainer/gradient_sync.h"
#include "common/train/trainer/model_state.h"

namespace ladder {

struct ZeroFlags {
  size_t stage = 0;                        // 0: lesson 02's buckets; 1: lesson 03's shards
  size_t bucket_bytes = size_t{25} << 20;  // for stage 0
  // `group` is the heading of these flags in --help.
  void add_to(FlagTable& flags, const char* heading);
};

// Returns where the buffers of the state are. Peers sum gradients in place, and at stage 1 they
// read parameters in place; `registered` is the source of such memory. `ranks` are those that have
// the other shards.
ModelState::Storages zero_storages(const ZeroFlags& flags, MemorySource* registered,
                                   const MuonRanks& ranks = {});

// Makes a BucketSync or a ShardSync; `gradients` is theirs. REQUIRES: the state was made with
// zero_storages().
std::unique_ptr<GradientSync> make_zero_sync(const ZeroFlags& flags, ModelState& state,
                                             Communicator& ranks, TensorView gradients = {});

}  // namespace ladder
