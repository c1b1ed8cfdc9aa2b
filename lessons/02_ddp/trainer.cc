#include "lessons/02_ddp/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/comm/staging.h"
#include "kernels/elementwise.h"

namespace ladder {
namespace {

std::vector<Bucket> buckets_for(const Layout& layout, DType dtype, const DdpTrainer::Flags& flags) {
  if (!flags.naive) return make_buckets(layout, dtype, flags.bucket_bytes);
  return {{layout.token_embedding(), 0, layout.num_elements()}};
}

// Elements of the staging area: none in shared memory.
size_t staging_for(const RunConfig& config, size_t data_size, const DdpTrainer::Flags& flags) {
  if (!config.no_shared_memory) return 0;
  size_t largest = 0;
  for (const Bucket& b : buckets_for(Layout(config.model, data_size), config.dtype, flags)) {
    largest = std::max(largest, b.num_elements);
  }
  return staging_elements(Collective::all_reduce, data_size, largest);
}

Tensor make_staging(const TrainerContext& context, const DdpTrainer::Flags& flags) {
  const size_t elements = staging_for(context.config, context.grid.data_size, flags);
  if (elements == 0) return Tensor();
  return Tensor(context.device_memory, Category::communication, context.config.dtype, {elements});
}

}  // namespace

void DdpTrainer::Flags::add_to(CLI::App& app) {
  const char* const group = "Data parallel";
  app.add_option("--bucket-bytes", bucket_bytes,
                 "Gradients are reduced in buckets of at least this size, such as 25MiB [25MiB]")
      ->transform(byte_size())
      ->group(group);
  app.add_flag("--no-overlap", no_overlap, "Reduce the buckets after backward, not beside it")
      ->group(group);
  app.add_flag("--naive", naive, "Reduce all gradients in one call after backward")->group(group);
}

Prediction DdpTrainer::predict(const RunConfig& config, const ProcessGrid& grid,
                               const Flags& flags) {
  Prediction prediction = Replica::predict(config, grid.data_size);
  prediction.device[Category::communication] =
      staging_for(config, grid.data_size, flags) * size_of(config.dtype);
  const Layout layout(config.model, grid.data_size);
  prediction.step[{Purpose::gradient, Collective::all_reduce}] = {
      .calls = buckets_for(layout, config.dtype, flags).size(),
      .payload_bytes = layout.num_elements() * size_of(config.dtype)};
  return prediction;
}

DdpTrainer::DdpTrainer(const TrainerContext& context, const Flags& flags)
    : replica_(context, context.grid.data_size, context.registered),
      staging_(make_staging(context, flags)),
      world_(*context.world),
      reducer_(replica_.gradients, staging_, world_,
               buckets_for(replica_.layout, context.config.dtype, flags),
               !flags.no_overlap && !flags.naive) {}

size_t DdpTrainer::num_rows() const {
  return replica_.context.config.global_batch_size / world_.size();
}

size_t DdpTrainer::first_row() const { return world_.rank() * num_rows(); }

StepResult DdpTrainer::step() {
  const RunConfig& config = replica_.context.config;
  Stream& stream = replica_.context.stream;
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  ++step_;
  fill(stream, replica_.gradients, 0);
  for (size_t row = 0; row < num_rows(); row += config.micro_batch_size) {
    replica_.forward(Split::train, step_, first_row() + row);
    // Gradients are complete, and may go to the other ranks, with the last micro-batch only.
    const bool is_last = row + config.micro_batch_size == num_rows();
    replica_.backward(1 / num_tokens, is_last ? reducer_.hooks(stream) : Hooks());
  }
  reducer_.wait(stream);
  const double loss = sum_over_ranks(replica_.losses.total()) / num_tokens;
  const double norm = std::sqrt(sum_over_ranks(
      replica_.grad_norm.squared_norm_of_shards(stream, replica_.gradients, world_.rank())));
  const AdamWStep update = adamw_step(config.optimizer, step_, norm);
  replica_.update(update);
  return {loss, norm, update.learning_rate};
}

double DdpTrainer::evaluate(size_t num_batches) {
  const RunConfig& config = replica_.context.config;
  double total = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    for (size_t row = 0; row < num_rows(); row += config.micro_batch_size) {
      replica_.forward(Split::validation, static_cast<int64_t>(batch), first_row() + row);
      replica_.evaluate();
    }
    total += sum_over_ranks(replica_.losses.total());
  }
  return total / static_cast<double>(num_batches * config.tokens_per_step());
}

void DdpTrainer::visit(TensorKind kind, const TensorSink& sink) {
  if (world_.rank() == 0) replica_.visit(kind, sink);
}

double DdpTrainer::sum_over_ranks(double number) {
  Stream host(DeviceType::cpu);
  world_.all_reduce(host, TensorView(&number, DType::fp64, DeviceType::cpu, {1}), {}).wait(host);
  return number;
}

void DdpTrainer::check_replicas() {
  // FNV-1a over the bits of every parameter, in layout order.
  uint64_t hash = 0xCBF29CE484222325;
  replica_.visit(TensorKind::param, [&](const Parameter&, ConstTensorView tensor) {
    const unsigned char* const bytes = static_cast<const unsigned char*>(tensor.data());
    for (size_t i = 0; i < tensor.num_bytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001B3;
  });
  Stream host(DeviceType::cpu);
  std::vector<int32_t> hashes(2 * world_.size());
  std::memcpy(&hashes[2 * world_.rank()], &hash, sizeof hash);
  const TensorView all(hashes.data(), DType::int32, DeviceType::cpu, {hashes.size()});
  world_.all_gather(host, all, all.rows(2 * world_.rank(), 2), {}).wait(host);
  for (size_t r = 1; r < world_.size(); ++r) {
    if (std::memcmp(&hashes[2 * r], hashes.data(), sizeof hash) == 0) continue;
    fail(concat("the parameters of rank ", r, " differ from those of rank 0"));
  }
}

}  // namespace ladder
