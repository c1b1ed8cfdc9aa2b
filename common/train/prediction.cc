#include "common/train/prediction.h"

#include "common/train/checkpoints.h"

namespace ladder {

Rehearsal::Rehearsal(const RunConfig& config, const ProcessGrid& grid)
    : config_(config),
      grid_(grid),
      device_(config.device, "device", 0, no_memory()),
      host_(DeviceType::cpu, "host", 0, no_memory()),
      world_(std::make_unique<Unconnected>(grid)),
      groups_(world_, grid_),
      ranks_{grid_, world_, &groups_} {}

FullTensors Rehearsal::full_tensors() {
  return FullTensors(host_, describe(config_.model), config_.accumulation(), world_);
}

Tensor Rehearsal::checkpoint_buffer(const std::vector<NamedSlice>& slices) {
  return ladder::checkpoint_buffer(host_, config_, slices);
}

TrainerContext Rehearsal::context() {
  return {.config = config_,
          .corpus = corpus_,
          .device_memory = device_,
          .host_memory = host_,
          .stream = stream_,
          .ranks = &ranks_};
}

Prediction predict(const Program& program, const RunConfig& config, const ProcessGrid& grid) {
  const Program planned = program.planned(config, grid);
  Prediction prediction;
  {
    Rehearsal rehearsal(config, grid);
    const TrainerCalls trainer = planned.make(rehearsal.context());
    const FullTensors full_tensors = rehearsal.full_tensors();
    const Tensor checkpoint = rehearsal.checkpoint_buffer(trainer.stored());
    prediction.device = rehearsal.device_peak();
    prediction.host = rehearsal.host_peak();
  }
  if (planned.traffic) prediction.step = planned.traffic(config, grid);
  return prediction;
}

}  // namespace ladder
