// The choice between ZeRO stages 0 and 1, which differ in how gradients are synchronized.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "common/comm/communicator.h"
#include "common/train/gradient_sync.h"
#include "common/train/model_state.h"

namespace ladder {

struct ZeroFlags {
  size_t stage = 0;                        // 0: lesson 02's buckets; 1: lesson 03's shards
  size_t bucket_bytes = size_t{25} << 20;  // of stage 0
  // `group`: the flags' heading in --help.
  void add_to(CLI::App& app, const char* group);
};

// Where the state is. Peers sum gradients in place, and at stage 1 read parameters in place:
// `registered` is where such memory comes from.
ModelState::Places zero_places(const ZeroFlags& flags, MemorySource* registered);

// REQUIRES: a state with zero_places(). `gradients`: as BucketSync's and ShardSync's.
std::unique_ptr<GradientSync> make_zero_sync(const ZeroFlags& flags, ModelState& state,
                                             Communicator& ranks, TensorView gradients = {});

// What the ranks communicate in a step, counted on `axis`, with gradients of the dtype `reduced`
// and parameters of the dtype `gathered`.
TrafficEntries zero_traffic(const ZeroFlags& flags, const Layout& layout, Axis axis, DType reduced,
                            DType gathered);

}  // namespace ladder
