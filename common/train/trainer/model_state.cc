#include "common/train/trainer/model_state.h"

#include <algorithm>
#include <optional>

#include "common/checkpoint/reader.h"
#include "common/model/weights.h"
#include "common/train/trainer/muon_state.h"
#include "kernels/elementwise.h"
#include "kernels/runtime/range.h"

namespace ladder {
namespace {

size_t elements_of(const Layout& layout, const ModelState::Storage& storage) {
  return storage.is_sharded ? layout.num_shard_elements() : layout.num_elements();
}

Memory& arena_of(const TrainerContext& context, const ModelState::Storage& storage) {
  return storage.on_host ? context.host_memory : context.device_memory;
}

Tensor make(const TrainerContext& context, const Layout& layout, const ModelState::Storage& storage,
            Category category, DType dtype) {
  return Tensor(arena_of(context, storage), category, dtype, {elements_of(layout, storage)},
                storage.source);
}

bool has_muon(const TrainerContext& context) {
  return context.config.optimizer.kind == OptimizerKind::muon;
}

AdamW make_optimizer(const TrainerContext& context, const Layout& layout, size_t rank,
                     const ModelState::Storages& storages) {
  const RunConfig& config = context.config;
  const ModelState::Storage& storage = storages.optimizer;
  // An optimizer on the host cannot update parameters on the device, so it needs masters, too.
  const bool has_masters =
      config.dtype != config.accumulation() || storage.on_host != storages.parameters.on_host;
  const size_t elements = elements_of(layout, storage);
  const size_t seconds =
      has_muon(context)
          ? SecondMoments(config.optimizer, layout, rank, storage.is_sharded).num_elements()
          : elements;
  return AdamW(arena_of(context, storage), config.optimizer, config.accumulation(), elements,
               seconds, has_masters);
}

size_t largest_tensor(const Layout& layout) {
  size_t largest = 0;
  for (const Unit& unit : layout.units()) {
    for (const Parameter& parameter : unit.parameters) {
      largest = std::max(largest, parameter.full_shape.num_elements());
    }
  }
  return largest;
}

}  // namespace

ModelState::ModelState(const TrainerContext& context, const Layout& layout, size_t rank,
                       const Storages& storages)
    : parameters(
          make(context, layout, storages.parameters, Category::parameters, context.config.dtype)),
      gradients(make(context, layout.trained(), storages.gradients, Category::gradients,
                     context.config.accumulation())),
      optimizer(make_optimizer(context, layout.trained(), rank, storages)),
      context_(context),
      layout_(layout),
      trained_(layout.trained()),
      rank_(rank),
      grad_norm_(arena_of(context, storages.gradients), trained_) {
  if (has_muon(context)) {
    check(!storages.optimizer.on_host, "ModelState: Muon works on the device");
    muon_ = std::make_unique<MuonState>(context, trained_, rank, storages.optimizer.is_sharded,
                                        storages.muon);
  }
  host_stream_.set_observer(context.stream.observer());
  // Checkpoints are read into buffers on the host without a detour.
  const bool resumes_on_device =
      context.config.checkpoint.resume && context.config.device != DeviceType::cpu;
  if (context.config.init.empty() && !resumes_on_device) return;
  staging_ = Tensor(context.host_memory, Category::workspace, context.config.accumulation(),
                    {largest_tensor(layout)});
}

ModelState::~ModelState() = default;

size_t ModelState::num_at_home() const { return muon_ ? muon_->num_at_home() : 0; }

int64_t ModelState::num_orthogonalized() const { return muon_ ? muon_->num_calls() : 0; }

void ModelState::initialize() {
  const RunConfig& config = context_.config;
  std::deque<WeightsFile> files;
  if (!config.init_adapter.empty()) {
    files.push_back(WeightsFile::of_adapters(config.init_adapter, Layout(config.model, 1)));
  }
  if (!config.init.empty()) files.emplace_back(config.init, Layout(config.model, 1));
  load(files, layout_, parameters);
  if (optimizer.masters.view().empty()) return;
  if (!files.empty()) {
    load(files, trained_, optimizer.masters);
  } else {
    masters_from_parameters();
  }
}

void ModelState::load(const std::deque<WeightsFile>& files, const Layout& layout,
                      TensorView buffer) {
  Stream& stream = stream_of(buffer);
  if (files.empty() && layout.covers(buffer)) {
    return initialize_parameters(stream, layout, context_.config.seed, 0, buffer);
  }
  if (files.empty()) {
    for (size_t unit = 0; unit < layout.units().size(); ++unit) {
      for (const UnitPart part : kUnitParts) {
        initialize_parameters(stream, layout, context_.config.seed,
                              shard_begin(layout, unit, rank_, part),
                              shard_of(layout, unit, rank_, buffer, part));
      }
    }
    return;
  }
  for (const Slice& slice : held_slices(layout, rank_, buffer)) {
    const Parameter& parameter = *slice.parameter;
    const auto file =
        std::ranges::find_if(files, [&](const WeightsFile& some) { return some.has(parameter); });
    if (file == files.end()) {  // a new adapter, or a new head
      initialize_parameter(stream, parameter, context_.config.seed, slice.first, slice.view);
      continue;
    }
    const TensorView host(staging_.view().data(), buffer.dtype(), DeviceType::cpu,
                          parameter.full_shape);
    file->read(parameter, host);
    const size_t end = slice.first + slice.view.num_elements();
    for_ranges_in(parameter, slice.first, end, [&](size_t from, size_t at, size_t count) {
      copy(stream, slice.view.elements(from - slice.first, {count}), host.elements(at, {count}));
    });
    stream.synchronize();
  }
}

void ModelState::masters_from_parameters() {
  for (size_t unit : layout_.trained_units()) {
    const TensorView out = updated_part(unit, optimizer.masters);
    const ConstTensorView in = updated_part(unit);
    if (out.device() == in.device()) {
      cast(context_.stream, out, in);
    } else {
      copy(context_.stream, out, in);
    }
  }
  context_.stream.synchronize();
}

void ModelState::restore(CheckpointReader& checkpoint) {
  const auto restore_held = [&](std::string_view kind, const Layout& layout, TensorView buffer) {
    if (!buffer.empty()) restore(checkpoint, kind, held_slices(layout, rank_, buffer));
  };
  restore_held(kParam, layout_, parameters);
  restore_held(kParam, trained_, optimizer.masters);
  restore_held(kExpAvg, trained_, optimizer.exp_avg);
  if (muon_) {
    restore(checkpoint, kExpAvgSq, muon_->seconds().held(optimizer.exp_avg_sq));
  } else {
    restore_held(kExpAvgSq, trained_, optimizer.exp_avg_sq);
  }
}

void ModelState::restore(CheckpointReader& checkpoint, std::string_view kind,
                         const std::vector<Slice>& slices) {
  for (const Slice& slice : slices) {
    const size_t n = slice.view.num_elements();
    const TensorView host(staging_.view().data(), slice.view.dtype(), DeviceType::cpu, {n});
    const bool on_host = slice.view.device() == DeviceType::cpu;
    checkpoint.read(concat(kind, ".", slice.parameter->name),
                    {slice.parameter->ranges, slice.first, n}, on_host ? slice.view : host);
    if (on_host) continue;
    Stream& stream = stream_of(slice.view);
    copy(stream, slice.view, host);
    stream.synchronize();
  }
}

std::vector<Scalar> ModelState::scalars() {
  return {{"step", &step}, {"updates", &optimizer.num_updates}};
}

void ModelState::clear_gradients() {
  if (!gradients.view().empty()) fill(stream_of(gradients), gradients, 0);
}

double ModelState::squared_norm() {
  return grad_norm_.squared_norm(stream_of(gradients), rank_, gradients);
}

void ModelState::update(const AdamWStep& adamw_step) {
  update_weights(adamw_step);
  const Range range(stream_of(updated_parameters()), "AdamW");
  std::vector<AdamWTensors> all;
  for (size_t unit = 0; unit < layout_.units().size(); ++unit) {
    const std::vector<AdamWTensors> own = adamw_tensors_of(unit);
    all.insert(all.end(), own.begin(), own.end());
  }
  adamw(stream_of(updated_parameters()), all, adamw_step);
}

void ModelState::update_weights(const AdamWStep& adamw_step) {
  if (!muon_) return;
  const auto tensors_of = [this](size_t unit) { return updated_tensors(unit); };
  muon_->update(context_.stream, tensors_of, adamw_step);
}

void ModelState::update(const AdamWStep& adamw_step, size_t unit) {
  const Range range(stream_of(updated_parameters()), layout_.unit(unit).name, "AdamW");
  adamw(stream_of(updated_parameters()), adamw_tensors_of(unit), adamw_step);
}

AdamWTensors ModelState::updated_tensors(size_t unit) const {
  const auto own = [&](TensorView buffer) { return updated_part(unit, buffer); };
  const TensorView masters = optimizer.masters, parameter = updated_part(unit);
  const TensorView target = masters.empty() ? parameter : own(masters);
  // In 16 bits the model's parameters are a copy of the masters, if they are not on another device.
  const bool has_copy =
      target.dtype() != parameters.dtype() && target.device() == parameters.view().device();
  return {.param = target,
          .exp_avg = own(optimizer.exp_avg),
          .exp_avg_sq = muon_ ? TensorView() : own(optimizer.exp_avg_sq),
          .grad = own(gradients),
          .copy = has_copy ? parameter : TensorView()};
}

std::vector<AdamWTensors> ModelState::adamw_tensors_of(size_t unit) const {
  const AdamWTensors all = updated_tensors(unit);
  if (muon_) return muon_->seconds().adamw_tensors(unit, all, optimizer.exp_avg_sq);
  const size_t begin = trained_.covers(optimizer.exp_avg) ? trained_.unit(unit).offset
                                                          : shard_begin(trained_, unit, rank_);
  return adamw_tensors(trained_, begin, all);
}

TensorView ModelState::updated_part(size_t unit) const {
  if (!trained_.covers(optimizer.exp_avg)) return parameter_shard(unit);
  return parameters.view().rows(layout_.unit(unit).offset, layout_.unit(unit).trained_elements);
}

TensorView ModelState::updated_part(size_t unit, TensorView buffer) const {
  const bool is_whole = trained_.covers(optimizer.exp_avg);
  return is_whole ? unit_in_flat(trained_, unit, buffer) : shard(buffer, unit);
}

std::vector<Slice> ModelState::slices(std::string_view kind) const {
  const auto owned = [&](TensorView buffer) { return owned_slices(trained_, rank_, buffer); };
  if (kind == kParam) {
    std::vector<Slice> slices = owned_slices(layout_, rank_, parameters);
    if (optimizer.masters.view().empty()) return slices;
    std::erase_if(slices, [](const Slice& slice) { return slice.parameter->trainable; });
    const std::vector<Slice> masters = owned(optimizer.masters);
    slices.insert(slices.begin(), masters.begin(), masters.end());
    return slices;
  }
  if (kind == kGrad) return owned(gradients);
  if (kind == kExpAvg) return owned(optimizer.exp_avg);
  if (kind == kExpAvgSq) {
    return muon_ ? muon_->seconds().owned(optimizer.exp_avg_sq) : owned(optimizer.exp_avg_sq);
  }
  return {};
}

TensorView ModelState::updated_parameters() const {
  return optimizer.masters.view().empty() ? parameters : optimizer.masters;
}

Stream& ModelState::stream_of(const TensorView& view) {
  return view.device() == DeviceType::cpu ? host_stream_ : context_.stream;
}

}  // namespace ladder
