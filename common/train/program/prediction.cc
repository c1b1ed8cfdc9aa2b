#include "common/train/program/prediction.h"

namespace ladder {

Rehearsal::Rehearsal(const RunConfig& config, const ProcessGrid& grid)
    : config_(config),
      grid_(grid),
      device_(config.device, "device", 0, no_memory()),
      host_(DeviceType::cpu, "host", 0, host_source_),
      stream_(config.device),
      unconnected_(*new Unconnected(grid, config.device)),
      world_(std::unique_ptr<Transport>(&unconnected_)),
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

TrafficEntries Rehearsal::traffic() const {
  TrafficEntries entries = world_.ledger().entries();
  std::erase_if(entries, [](const auto& entry) { return entry.first.purpose == Purpose::control; });
  for (auto& [key, traffic] : entries) {
    traffic = traffic.times(1);  // without times and moved bytes
    if (!traffic.at_most || traffic.group_sent_bytes == 0) continue;
    traffic.payload_bytes = traffic.group_sent_bytes / grid_.size(key.axis);
    traffic.group_sent_bytes = 0;
  }
  return entries;
}

namespace {

Prediction predict(const Program& program, const RunConfig& config, const ProcessGrid& grid,
                   bool with_step) {
  const Program planned = program.planned(config, grid);
  Rehearsal rehearsal(config, grid);
  const auto trainer = planned.make(rehearsal.context());
  const FullTensors full_tensors = rehearsal.full_tensors();
  Tensor checkpoint;
  if (!config.checkpoint.path.empty()) checkpoint = rehearsal.checkpoint_buffer(trainer->stored());
  Prediction prediction = {
      rehearsal.device_peak(), rehearsal.host_peak(), {}, rehearsal.num_groups()};
  if (!with_step) return prediction;
  trainer->step();
  prediction.step = rehearsal.traffic();
  return prediction;
}

}  // namespace

Prediction predict(const Program& program, const RunConfig& config, const ProcessGrid& grid) {
  return predict(program, config, grid, true);
}

Prediction predict_memory(const Program& program, const RunConfig& config,
                          const ProcessGrid& grid) {
  return predict(program, config, grid, false);
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
                       : on_device             ? kFileBlockBytes
                                               : 0;
  if (bytes == 0) return {};
  return Tensor(host_memory, Category::workspace, DType::fp32, {(bytes + 3) / 4});
}

}  // namespace ladder
