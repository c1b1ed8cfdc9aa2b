// ZeRO stage 0 or 1, for trainers that offer both.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "lessons/02_ddp/buckets.h"
#include "lessons/03_zero1/shards.h"

namespace ladder {

struct ZeroFlags {
  size_t stage = 0;
  size_t bucket_bytes = size_t{25} << 20;
  // `group`: the flags' heading in --help.
  void add_to(CLI::App& app, const char* group);
};

// What a rank holds: everything, at stage 1 a shard of the moments. Where peers sum gradients, and
// at stage 1 read parameters, it is `registered`.
StateShare share_of(const Layout& layout, const ZeroFlags& flags, MemorySource* registered);

// What ranks that share the global batch do with gradients: at stage 0 lesson 02's buckets sum them
// everywhere and every rank updates everything; at stage 1 lesson 03's shards.
class ZeroStage {
 public:
  // REQUIRES: the replica has the share of share_of(). `reduced`: as BucketReducer's.
  ZeroStage(Replica& replica, Communicator& ranks, const ZeroFlags& flags, TensorView reduced = {});

  // Adds what a step communicates, on `axis`, with gradients of `reduced`, and memory for
  // collecting shards.
  static void add_to(Prediction& prediction, const RunConfig& config, const ProcessGrid& grid,
                     const Layout& layout, const ZeroFlags& flags, Axis axis, DType reduced);

  // For the last micro-batch's backward, once a step.
  Hooks hooks(Stream& stream) {
    return buckets_ ? buckets_->hooks(stream) : scatter_->hooks(stream);
  }
  // Returns when this rank's gradients (at stage 1: its shards of them) are summed.
  void wait(Stream& stream) { buckets_ ? buckets_->wait(stream) : scatter_->wait(stream); }
  // This rank's part of a unit's gradient, of which wait() makes the sum.
  TensorView summed_gradient(size_t unit) const;
  // AdamW everywhere; at stage 1 by each rank on its shards, which the others then receive.
  void update(const AdamWStep& step);
  // Full tensors, on rank 0. Collective. Synchronizes.
  void visit(TensorKind kind, const TensorSink& sink);

 private:
  Replica& replica_;
  Communicator& ranks_;
  std::optional<BucketReducer> buckets_;    // at stage 0
  std::optional<GradientScatter> scatter_;  // at stage 1
  std::optional<ShardCollector> shards_;
};

}  // namespace ladder
