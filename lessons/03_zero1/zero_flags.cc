#include "lessons/03_zero1/zero_flags.h"

#include "common/train/flags/flag_table.h"
#include "common/train/flags/options.h"
#include "common/train/flags/validators.h"
#include "lessons/02_ddp/buckets.h"
#include "lessons/03_zero1/shards.h"

namespace ladder {

void ZeroFlags::add_to(FlagTable& flags, const char* heading) {
  flags.heading(heading);
  flags.add(
      "--zero-stage", stage,
      concat("What data-parallel ranks shard: 0 nothing, 1 the optimizer's state [", stage, "]"),
      whole(0, 1));
  flags.add("--bucket-bytes", bucket_bytes,
            "At stage 0 gradients are reduced in buckets of at least this size [25MiB]",
            byte_size());
}

ModelState::Storages zero_storages(const ZeroFlags& flags, MemorySource* registered,
                                   const MuonRanks& ranks) {
  return {.parameters = {.source = flags.stage == 1 ? registered : nullptr},
          .gradients = {.source = registered},
          .optimizer = {.is_sharded = flags.stage == 1},
          .muon = flags.stage == 1 ? ranks : MuonRanks()};
}

std::unique_ptr<GradientSync> make_zero_sync(const ZeroFlags& flags, ModelState& state,
                                             Communicator& ranks, TensorView gradients) {
  if (flags.stage == 1) return std::make_unique<ShardSync>(state, ranks, gradients);
  return std::make_unique<BucketSync>(
      state, ranks, make_buckets(state.layout(), state.gradients.dtype(), flags.bucket_bytes),
      BucketSync::Options{.gradients = gradients});
}

}  // namespace ladder
