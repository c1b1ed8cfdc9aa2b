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

// An optimizer on the host cannot update parameters on the device, so it needs masters, too.
bool has_masters(const RunConfig& config, const ModelState::Storages& storages) {
  return config.dtype != config.accumulation() ||
         storages.optimizer.on_host != storages.parameters.on_host;
}

bool needs_matrices(const std::unique_ptr<UpdateRule>& rule) { return rule->needs_matrices(); }

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
      rules(
          make_rules(context.config.optimizer,
                     [this](Stream& stream, const std::vector<UpdateTensors>& tensors,
                            const UpdateStep& update) { muon_->update(stream, tensors, update); })),
      optimizer(arena_of(context, storages.optimizer), rules, context.config.accumulation(),
                layout.trained(), rank, storages.optimizer.is_sharded,
                has_masters(context.config, storages)),
      context_(context),
      layout_(layout),
      trained_(layout.trained()),
      rank_(rank),
      grad_norm_(arena_of(context, storages.gradients), trained_) {
  if (std::ranges::any_of(rules, needs_matrices)) {
    check(!storages.optimizer.on_host, "ModelState: whole matrices are on the device");
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

MatrixWork ModelState::matrix_work() const { return muon_ ? muon_->work() : MatrixWork(); }

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
  for (const std::string_view kind : kStoredKinds) {
    restore(checkpoint, kind, optimizer.held(kind));
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

double ModelState::update(double norm, const AfterUnit& after_unit) {
  const OptimizerConfig& config = context_.config.optimizer;
  const int64_t number = ++optimizer.num_updates;
  const UpdateStep update_step = {.number = number,
                                  .learning_rate = learning_rate_at(config, number),
                                  .grad_scale = clip_factor(config, norm) / loss_scale};
  const std::vector<size_t> units = layout_.trained_units();
  update(update_step, units, true);
  Stream& stream = stream_of(updated_parameters());
  if (!after_unit) {
    const Range range(stream, kUpdateRange);
    update(update_step, units, false);
  } else {
    for (const size_t unit : units) {
      {
        const Range range(stream, layout_.unit(unit).name, kUpdateRange);
        update(update_step, {unit}, false);
      }
      after_unit(unit);
    }
  }
  return update_step.learning_rate;
}

void ModelState::update(const UpdateStep& update_step, const std::vector<size_t>& units,
                        bool by_matrices) {
  for (size_t rule = 0; rule < rules.size(); ++rule) {
    if (rules[rule]->needs_matrices() != by_matrices) continue;
    std::vector<UpdateTensors> tensors;
    for (const size_t unit : units) {
      optimizer.add_tensors(rule, unit, updated_tensors(unit), tensors);
    }
    rules[rule]->update(stream_of(updated_parameters()), tensors, update_step);
  }
}

UpdateTensors ModelState::updated_tensors(size_t unit) const {
  const auto own = [&](TensorView buffer) { return updated_part(unit, buffer); };
  const TensorView masters = optimizer.masters, parameter = updated_part(unit);
  const TensorView target = masters.empty() ? parameter : own(masters);
  // In 16 bits the model's parameters are a copy of the masters, if they are not on another device.
  const bool has_copy =
      target.dtype() != parameters.dtype() && target.device() == parameters.view().device();
  return {.parameter = nullptr,
          .param = target,
          .grad = own(gradients),
          .copy = has_copy ? parameter : TensorView()};
}

TensorView ModelState::updated_part(size_t unit) const {
  if (optimizer.is_sharded()) return parameter_shard(unit);
  return parameters.view().rows(layout_.unit(unit).offset, layout_.unit(unit).trained_elements);
}

TensorView ModelState::updated_part(size_t unit, TensorView buffer) const {
  return optimizer.is_sharded() ? shard(buffer, unit) : unit_in_flat(trained_, unit, buffer);
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
  return optimizer.owned(kind);
}

TensorView ModelState::updated_parameters() const {
  return optimizer.masters.view().empty() ? parameters : optimizer.masters;
}

Stream& ModelState::stream_of(const TensorView& view) {
  return view.device() == DeviceType::cpu ? host_stream_ : context_.stream;
}

}  // namespace ladder
