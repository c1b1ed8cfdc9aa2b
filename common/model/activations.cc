#include "common/model/activations.h"

#include <algorithm>
#include <utility>

#include "kernels/matmul.h"
#include "kernels/rotary.h"
#include "kernels/runtime/simulation.h"

namespace ladder {
namespace {

// The index of a block's output in BlockActivations.
constexpr size_t kOut = std::tuple_size_v<BlockActivations> - 1;

// Returns the columns of BlockWorkspace::inner, for all sublayers.
size_t widest_inner(const Layout& layout) {
  size_t widest = 0;
  for (const Sublayer& s : dense_sublayers(layout.config())) {
    widest = std::max(widest, inner_columns(s, layout.part().tensor_size));
  }
  return widest;
}

// Returns the columns of BlockWorkspace::adapters, for all sublayers.
size_t widest_adapters(const Layout& layout) {
  size_t widest = 0;
  for (const Sublayer& s : dense_sublayers(layout.config())) {
    widest = std::max(widest, widest_adapters(s));
  }
  return widest;
}

// Fills the table of rotary positions on the host, and brings it to the table's device.
void make_rotary_table(TensorView table, const Rotary& rotary) {
  if (Simulation::current() != nullptr) return;  // nobody reads it
  if (table.device() == DeviceType::cpu) return fill_rotary_table(table, rotary);
  std::vector<std::byte> elements(table.num_bytes());
  const TensorView host(elements.data(), table.dtype(), DeviceType::cpu, table.shape());
  fill_rotary_table(host, rotary);
  Stream stream(table.device());
  copy(stream, table, host);
  stream.synchronize();
}

// Returns the elements of `summed_`, counted in the accumulation dtype.
size_t summed_elements(const Layout& layout, DType dtype, size_t rows, size_t classifier_rows) {
  const size_t size = size_of(accumulation_dtype(dtype));
  const ModelConfig& config = layout.config();
  // Attention's heads may have more columns than the residual stream.
  const size_t elements = std::max(layout.part().residual().padded(rows) * config.hidden,
                                   rows * config.query_columns() / layout.part().tensor_size);
  const size_t rounded = (elements * size_of(dtype) + size - 1) / size;
  const bool classifies = layout.has(OperationKind::classifier);
  return rounded + (classifies ? 3 * classifier_rows : 0);
}

// Returns the number of tokens of the vocabulary for which this rank has logits.
size_t num_logits(const Layout& layout) {
  const Operation& classifier = layout.operations().back();
  return layout.unit(classifier.unit).parameters[0].shape[0];
}

// Returns whether a rank has all rows of the tensor, or those of the residual stream.
bool has_all_rows(const ActivationSpec& spec, const ModelPartition& part) {
  return spec.split || (spec.is_gathered && part.keeps_gathered);
}

// Returns the rows for which a rank has memory.
size_t elements_of(const ActivationSpec& spec, const ModelPartition& part, size_t rows) {
  if (spec.split) return rows;
  return has_all_rows(spec, part) ? part.residual().padded(rows) : part.residual().most(rows);
}

// Returns the rows and the columns that a rank has.
size_t rows_of(const ActivationSpec& spec, const ModelPartition& part, size_t rows) {
  return has_all_rows(spec, part) ? rows : part.residual().count(rows);
}
size_t columns_of(const ActivationSpec& spec, const ModelPartition& part) {
  if (!spec.split || spec.columns == 0) return spec.columns;
  return spec.parts.empty() ? spec.columns / part.tensor_size
                            : split_outputs(spec.parts, part.tensor_size);
}

}  // namespace

Tensor make_activation(Memory& memory, Category category, const Layout& layout, DType dtype,
                       size_t rows, const ActivationSpec& spec) {
  const bool is_statistic = spec.kind != ActivationSpec::Kind::rows;
  const ModelPartition& part = layout.part();
  return Tensor(memory, category, is_statistic ? accumulation_dtype(dtype) : dtype,
                {elements_of(spec, part, rows) * columns_of(spec, part)});
}

std::vector<ActivationSpec> block_activation_specs(const std::vector<Sublayer>& sublayers) {
  using enum ActivationSpec::Kind;
  using O = SublayerOperation;
  std::vector<ActivationSpec> specs;
  for (const Sublayer& s : sublayers) {
    const auto add = [&](O::Index operation, ActivationSpec::Kind kind, size_t columns, bool split,
                         bool is_gathered = false) {
      specs.push_back(
          {s.names[operation], kind, columns, split, s.operation(operation), {}, is_gathered});
    };
    const bool is_here = s.num_experts == 0;  // experts have activations of their own
    add(O::norm, rows, s.first.in, false, true);
    add(O::norm, row_statistics, s.norm == Norm::layernorm ? 1 : 0, false);  // mean
    add(O::norm, row_statistics, 1, false);                                  // rstd
    add(O::first, rows, is_here ? s.first.out : 0, true);
    specs.back().parts = s.first.parts;
    add(O::first, rows, s.norms_heads ? s.first.parts[0].out + s.first.parts[1].out : 0, true);
    if (s.norms_heads) specs.back().parts = {s.first.parts[0], s.first.parts[1]};
    add(O::first, row_statistics, s.norms_heads ? s.num_heads + s.key_value_heads : 0, true);
    specs.back().parts = {{"q", s.num_heads}, {"k", s.key_value_heads, s.key_value_heads}};
    add(O::core, head_statistics, s.num_heads, true);
    add(O::core, rows, is_here ? s.second.in : 0, true);
    add(O::second, rows, s.second.out, false);
  }
  return specs;
}

SharedActivations::SharedActivations(Memory& memory, const Layout& layout, DType dtype, size_t rows,
                                     RecomputePlan plan, OffloadPlan offload)
    : plan_(std::move(plan)),
      offload_(std::move(offload)),
      specs_(block_activation_specs(dense_sublayers(layout.config()))) {
  for (const BlockOperations& operations : plan_.sets()) {
    std::vector<Tensor>& set = dropped_.emplace_back();
    for (const ActivationSpec& spec : specs_) {
      set.push_back(operations[spec.operation] && spec.columns > 0
                        ? make_activation(memory, Category::workspace, layout, dtype, rows, spec)
                        : Tensor());
    }
  }
  for (size_t turn = 0; turn < OffloadPlan::kTurns; ++turn) {
    offloaded_.emplace_back(specs_.size());
  }
  for (size_t block = 0; block < layout.count(OperationKind::block); ++block) {
    for (size_t i = 0; i < specs_.size(); ++i) {
      const std::optional<size_t> set = offload_.set_of(block, specs_[i].operation);
      if (!set || specs_[i].columns == 0) continue;
      Tensor& tensor = offloaded_[*set % OffloadPlan::kTurns][i];
      if (!tensor.view().empty()) continue;
      tensor = make_activation(memory, Category::activations, layout, dtype, rows, specs_[i]);
    }
  }
}

const Tensor* SharedActivations::find(size_t block, size_t index) const {
  const size_t operation = specs_[index].operation;
  if (plan_.drops(block, operation)) return &dropped_[plan_.set_of(block)][index];
  const std::optional<size_t> set = offload_.set_of(block, operation);
  return set ? &offloaded_[*set % OffloadPlan::kTurns][index] : nullptr;
}

Activations::Activations(Memory& memory, const Layout& layout, DType dtype, size_t batch,
                         size_t tokens, const SharedActivations* shared)
    : hidden_(layout.config().hidden),
      part_(layout.part()),
      batch_(batch),
      tokens_(tokens),
      capacity_(batch * tokens),
      shared_(shared),
      block_specs_(block_activation_specs(dense_sublayers(layout.config()))) {
  const auto make = [&](const ActivationSpec& spec) {
    return make_activation(memory, Category::activations, layout, dtype, capacity_, spec);
  };
  using Kind = ActivationSpec::Kind;
  input_ = make({"input", Kind::rows, hidden_});
  for (const Operation& operation : layout.operations()) {
    if (operation.kind != OperationKind::block) continue;
    const std::vector<ActivationSpec> specs = block_activation_specs(operation.sublayers);
    std::vector<Tensor>& block = blocks_.emplace_back();
    for (size_t i = 0; i < specs.size(); ++i) {
      const bool is_own = specs[i].columns > 0 && find_shared(operation.index, i) == nullptr;
      block.push_back(is_own ? make(specs[i]) : Tensor());
    }
  }
  if (!layout.has(OperationKind::final_norm)) return;
  final_norm_ = make({"final_norm", Kind::rows, hidden_});
  if (layout.config().norm == Norm::layernorm) {
    final_mean_ = make({"final_mean", Kind::row_statistics});
  }
  final_rstd_ = make({"final_rstd", Kind::row_statistics});
}

void Activations::resize(size_t batch, size_t tokens) {
  check(batch * tokens <= capacity_, "Activations::resize: more than was allocated");
  batch_ = batch;
  tokens_ = tokens;
}

TensorView Activations::rows(const Tensor& tensor, size_t columns) const {
  return tensor.view().elements(0, {part_.residual().count(batch_ * tokens_), columns});
}

TensorView Activations::rows(const Tensor& tensor) const {
  if (tensor.view().empty()) return {};
  return tensor.view().elements(0, {part_.residual().count(batch_ * tokens_)});
}

Shape Activations::shape_of(const ActivationSpec& spec) const {
  switch (spec.kind) {
    case ActivationSpec::Kind::rows:
      return {rows_of(spec, part_, batch_ * tokens_), columns_of(spec, part_)};
    case ActivationSpec::Kind::row_statistics: {
      const size_t count = rows_of(spec, part_, batch_ * tokens_);
      return spec.split ? Shape{count, columns_of(spec, part_)} : Shape{count};
    }
    case ActivationSpec::Kind::head_statistics:
      return {batch_, columns_of(spec, part_), tokens_};
  }
  return {};
}

BlockActivations Activations::block(size_t index) const {
  BlockActivations views;
  for (size_t i = 0; i < views.size(); ++i) {
    const TensorView whole = tensor(index, i);
    if (!whole.empty()) views[i] = whole.elements(0, shape_of(block_specs_[i]));
  }
  return views;
}

TensorView Activations::block_input(size_t index) const {
  return index == 0 ? input() : rows(tensor(index - 1, kOut), hidden_);
}

ModelWorkspace::ModelWorkspace(Memory& memory, const Layout& layout, DType dtype, size_t batch,
                               size_t tokens, MemorySource* registered, bool rounds_logits)
    : hidden_(layout.config().hidden),
      inner_columns_(widest_inner(layout)),
      head_columns_(layout.config().query_columns() / layout.part().tensor_size),
      num_heads_(layout.config().num_heads / layout.part().tensor_size),
      part_(layout.part()) {
  const size_t r = batch * tokens, c = hidden_;
  const size_t k = std::min(r, classifier_rows(memory.device()));
  const DType full = accumulation_dtype(dtype);
  const auto make = [&](DType type, const Shape& shape, MemorySource* source = nullptr) {
    return Tensor(memory, Category::workspace, type, shape, source);
  };
  d_residual_ = make(dtype, {part_.residual().most(r) * c});
  if (part_.splits_tokens) gathered_ = make(dtype, {part_.residual().padded(r) * c}, registered);
  inner_ = make(dtype, {r * inner_columns_});
  row_dot_ = make(full, {r * num_heads_});
  adapters_ = make(dtype, {2 * r * widest_adapters(layout)});
  summed_ = make(full, {summed_elements(layout, dtype, r, k)}, registered);
  const ModelConfig& config = layout.config();
  if (config.positions == Positions::rotary && layout.has(OperationKind::block)) {
    rotary_table_ = make(full, {config.sequence_length, config.head_columns()});
    make_rotary_table(rotary_table_, config.rotary());
  }
  if (!layout.has(OperationKind::classifier)) return;
  losses_ = make(full, {r});
  num_logits_ = num_logits(layout);
  const Shape padded = {k, padded_columns(num_logits_, memory.device())};
  logits_ = make(rounds_logits ? dtype : full, padded);
  if (logits_.dtype() != dtype) dlogits_ = make(dtype, padded);
}

TensorView ModelWorkspace::d_residual(const Activations& a) const {
  return d_residual_.view().elements(0, {part_.residual().count(a.batch() * a.tokens()), hidden_});
}

TensorView ModelWorkspace::losses(const Activations& a) const {
  return losses_.view().elements(0, {a.batch() * a.tokens()});
}

BlockWorkspace ModelWorkspace::block(const Activations& a) const {
  const size_t r = a.batch() * a.tokens();
  const TensorView inner = inner_;
  return {
      .hidden = TensorView(summed_.view().data(), inner.dtype(), inner.device(), {r, hidden_}),
      .gathered = part_.splits_tokens ? gathered_.view().elements(0, {r, hidden_}) : TensorView(),
      .d_core =
          TensorView(summed_.view().data(), inner.dtype(), inner.device(), {r, head_columns_}),
      .inner = inner.elements(0, {r, inner_columns_}),
      .row_dot = row_dot_.view().elements(0, {a.batch(), num_heads_, a.tokens()}),
      .rotary_table = rotary_table_,
      .adapters = adapters_};
}

ClassifierWorkspace ModelWorkspace::classifier() const {
  const size_t k = logits_.shape()[0];
  const TensorView dlogits = dlogits_.view().empty() ? logits_.view() : dlogits_.view();
  return {logits_.view().first_columns(num_logits_), dlogits.first_columns(num_logits_),
          summed_.view().rows(summed_.shape()[0] - 3 * k, 3 * k)};
}

}  // namespace ladder
