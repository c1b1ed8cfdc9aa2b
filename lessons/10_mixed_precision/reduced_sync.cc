#include "lessons/10_mixed_precision/reduced_sync.h"

#include "common/train/flags/flag_table.h"
#include "common/train/trainer/ranks.h"
#include "kernels/elementwise.h"

namespace ladder {

void ReduceFlags::add_to(FlagTable& flags) {
  const auto set = [this](const std::string& name) {
    dtype = name == "fp32" ? DType::fp32 : name == "bf16" ? DType::bf16 : DType::fp16;
  };
  flags.add_function("--reduce-dtype", set, "Of gradients between ranks: fp32, bf16 or fp16 [fp32]",
                     CLI::IsMember({"fp32", "bf16", "fp16"}).description(""));
}

DType ReduceFlags::of(const RunConfig& config) const {
  if (config.dtype == DType::fp64 && dtype) {
    throw UserError(
        concat("--reduce-dtype ", name_of(*dtype),
               " with --dtype fp64, whose gradients are reduced in fp64; leave it out"));
  }
  return dtype.value_or(config.accumulation());
}

Tensor ReduceFlags::make_buffer(const TrainerContext& context, const Layout& layout) const {
  const DType reduced = of(context.config);
  if (reduced == context.config.accumulation()) return {};
  return Tensor(context.device_memory, Category::communication, reduced,
                {layout.trained().num_elements()}, context.ranks->registered);
}

Hooks ReducedSync::hooks() {
  Hooks inner = inner_->hooks();
  Hooks hooks = inner;
  hooks.done = [this, inner](const Use& use) {
    if (use.gradient_is_final) {
      const Layout& layout = state_.layout().trained();
      cast(state_.stream(), unit_in_flat(layout, use.unit, reduced_),
           unit_in_flat(layout, use.unit, state_.gradients.view()));
      final_.push_back(use.unit);
    }
    if (inner.done) inner.done(use);
  };
  return hooks;
}

void ReducedSync::wait() {
  inner_->wait();
  for (const size_t unit : final_) {
    cast(state_.stream(), summed(unit), inner_->summed(unit));
  }
  final_.clear();
}

TensorView ReducedSync::summed(size_t unit) const {
  const TensorView whole = unit_in_flat(state_.layout().trained(), unit, state_.gradients.view());
  const bool is_whole = inner_->summed(unit).num_elements() == whole.num_elements();
  return is_whole ? whole : state_.shard(state_.gradients, unit);
}

std::unique_ptr<GradientSync> make_reduced_sync(const ZeroFlags& flags, ModelState& state,
                                                Communicator& ranks, TensorView reduced) {
  std::unique_ptr<GradientSync> sync = make_zero_sync(flags, state, ranks, reduced);
  if (reduced.empty()) return sync;
  return std::make_unique<ReducedSync>(state, reduced, std::move(sync));
}

}  // namespace ladder
