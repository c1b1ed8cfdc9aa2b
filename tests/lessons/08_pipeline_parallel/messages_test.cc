// Messages that nothing buffers: every send lasts until its recv, and messages are of 1 MiB.

#include "lessons/08_pipeline_parallel/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/split.h"

namespace ladder {
namespace {

using namespace testing;

// 4 micro-batches of 128 rows of 64 tokens, and few enough columns to be quick.
RunConfig large_config() {
  RunConfig config = split_config(DType::fp64, 128);
  config.model.hidden = 16;
  config.model.sequence_length = 64;
  config.global_batch_size = 4 * 128;
  return config;
}

TEST_CASE("no schedule relies on buffers between the stages") {
  const RunConfig config = large_config();
  const Record oracle = record_oracle(config);
  for (ScheduleKind kind : {ScheduleKind::naive, ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
    INFO(name_of(kind));
    Groups groups(4, {.synchronous_sends = true});
    const Record record =
        record_run<PipelineTrainer>(config, *groups.group, &groups.node_memory, {.schedule = kind});
    require_as_predicted(record);
    if (groups.group->rank() != 0) continue;
    require_none(differences(oracle, record, bounds_for(config.dtype), config.optimizer));
  }
}

}  // namespace
}  // namespace ladder
