// The trainers of all lessons, for tests that ask each of them.
#pragma once

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

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

namespace ladder::testing {

using AllTrainers =
    std::tuple<SingleGpuTrainer, DdpTrainer, Zero1Trainer, Zero2Trainer, Zero3Trainer,
               OffloadTrainer, TensorParallelTrainer, PipelineTrainer, ThreeDTrainer,
               MixedPrecisionTrainer, CheckpointingTrainer, CompressionTrainer,
               SequenceParallelTrainer, ContextParallelTrainer, ExpertParallelTrainer,
               ScheduleTrainer, ElasticTrainer, FineTuningTrainer, MuonTrainer, HybridShardTrainer>;

// Calls ask.template operator()<T>() for each trainer T. Returns the answers in the lessons' order.
template <class Ask>
auto of_all_trainers(Ask ask) {
  return [&]<class... T>(std::tuple<T...>*) {
    return std::vector{ask.template operator()<T>()...};
  }(static_cast<AllTrainers*>(nullptr));
}

// Calls ask.template operator()<T>() for the trainer T of a lesson, and returns its answer.
template <class Ask>
auto of_trainer(std::string_view lesson, Ask ask) {
  std::optional<decltype(ask.template operator()<SingleGpuTrainer>())> answer;
  of_all_trainers([&]<class T>() {
    if (lesson == T::kLesson.info.name) answer.emplace(ask.template operator()<T>());
    return 0;
  });
  check(answer.has_value(), "of_trainer: no such lesson");
  return *answer;
}

}  // namespace ladder::testing
