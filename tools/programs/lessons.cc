#include "tools/programs/lessons.h"

#include "common/io/printable.h"
#include "lessons/01_single_gpu/trainer.h"
#include "lessons/02_ddp/trainer.h"
#include "lessons/03_zero1/trainer.h"
#include "lessons/04_zero2/trainer.h"
#include "lessons/05_zero3/trainer.h"
#include "lessons/06_offload/trainer.h"
#include "lessons/07_tensor_parallel/trainer.h"
#include "lessons/08_pipeline_parallel/trainer.h"
#include "lessons/09_3d_parallel/trainer.h"
#include "lessons/10_mixed_precision/trainer.h"
#include "lessons/11_activation_checkpointing/trainer.h"
#include "lessons/12_gradient_compression/trainer.h"
#include "lessons/13_sequence_parallel/trainer.h"
#include "lessons/14_context_parallel/trainer.h"
#include "lessons/15_expert_parallel/trainer.h"
#include "lessons/16_pipeline_schedules/trainer.h"
#include "lessons/17_elastic/trainer.h"
#include "lessons/18_fine_tuning/trainer.h"
#include "lessons/20_muon/trainer.h"
#include "lessons/21_hybrid_shard/trainer.h"

namespace ladder {
namespace {

const Programs& programs() {
  static const auto all =
      programs_of<SingleGpuTrainer, DdpTrainer, Zero1Trainer, Zero2Trainer, Zero3Trainer,
                  OffloadTrainer, TensorParallelTrainer, PipelineTrainer, ThreeDTrainer,
                  MixedPrecisionTrainer, CheckpointingTrainer, CompressionTrainer,
                  SequenceParallelTrainer, ContextParallelTrainer, ExpertParallelTrainer,
                  ScheduleTrainer, ElasticTrainer, FineTuningTrainer, MuonTrainer,
                  HybridShardTrainer>();
  return all;
}

}  // namespace

std::vector<std::string> lesson_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : programs()) names.push_back(name);
  return names;
}

Program program_of(const std::string& lesson) {
  const auto found = programs().find(lesson);
  if (found != programs().end()) return found->second();
  throw UserError(
      concat(quoted_name(lesson), ": expected a lesson with a trainer, such as 05_zero3"));
}

}  // namespace ladder
