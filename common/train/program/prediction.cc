#include "common/train/program/prediction.h"

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

Tensor checkpoint_buffer(Memory& host_memory, const RunConfig& config,
                         const std::vector<NamedSlice>& slices) {
  const CheckpointConfig& checkpoint = config.checkpoint;
  bool on_device = false;
  size_t all = 0;
  for (const auto& [name, slice] : slices) {
    on_device |= slice.view.device() != DeviceType::cpu;
    all += slice.view.num_bytes();
  }
  const size_t bytes = checkpoint.path.empty() ? 0
                       : checkpoint.async      ? all
                       : on_device             ? kChunkBytes
                                               : 0;
  if (bytes == 0) return {};
  return Tensor(host_memory, Category::workspace, DType::fp32, {(bytes + 3) / 4});
}

}  // namespace ladder
