#include "common/model/activations.h"

#include <algorithm>

namespace ladder {

Activations::Activations(Memory& memory, const Layout& layout, DType dtype, size_t batch,
                         size_t tokens)
    : hidden_(layout.config().hidden),
      tensor_size_(layout.part().tensor_size),
      num_heads_(layout.config().num_heads / tensor_size_),
      batch_(batch),
      tokens_(tokens),
      capacity_(batch * tokens) {
  const size_t r = capacity_, c = hidden_, slice = c / tensor_size_;
  const auto make = [&](size_t elements) {
    return Tensor(memory, Category::activations, dtype, {elements});
  };
  input_ = make(r * c);
  for (size_t layer = 0; layer < layout.num_layers(); ++layer) {
    blocks_.push_back({make(r * c), make(r), make(r), make(3 * r * slice), make(r * num_heads_),
                       make(r * slice), make(r * c), make(r * c), make(r), make(r),
                       make(4 * r * slice), make(4 * r * slice), make(r * c)});
  }
  if (!layout.has_classifier()) return;
  final_norm_ = make(r * c);
  final_mean_ = make(r);
  final_rstd_ = make(r);
}

size_t Activations::num_elements(const Layout& layout, size_t batch, size_t tokens) {
  const size_t c = layout.config().hidden, n = layout.part().tensor_size;
  const size_t of_block = 4 * c + 12 * c / n + layout.config().num_heads / n + 4;
  return batch * tokens *
         (layout.num_layers() * of_block + c + (layout.has_classifier() ? c + 2 : 0));
}

void Activations::resize(size_t batch, size_t tokens) {
  check(batch * tokens <= capacity_, "Activations::resize: more than was allocated");
  batch_ = batch;
  tokens_ = tokens;
}

BlockActivations Activations::block(size_t layer) const {
  const Block& b = blocks_[layer];
  const size_t c = hidden_, slice = c / tensor_size_;
  return {.ln_1 = rows(b.ln_1, c),
          .ln_1_mean = rows(b.ln_1_mean),
          .ln_1_rstd = rows(b.ln_1_rstd),
          .qkv = rows(b.qkv, 3 * slice),
          .logsumexp = b.logsumexp.view().elements(0, {batch_, num_heads_, tokens_}),
          .attention = rows(b.attention, slice),
          .middle = rows(b.middle, c),
          .ln_2 = rows(b.ln_2, c),
          .ln_2_mean = rows(b.ln_2_mean),
          .ln_2_rstd = rows(b.ln_2_rstd),
          .fc = rows(b.fc, 4 * slice),
          .gelu = rows(b.gelu, 4 * slice),
          .out = rows(b.out, c)};
}

TensorView Activations::block_input(size_t layer) const {
  return layer == 0 ? input() : rows(blocks_[layer - 1].out, hidden_);
}

ModelWorkspace::ModelWorkspace(Memory& memory, const Layout& layout, DType dtype, size_t batch,
                               size_t tokens, MemorySource* registered)
    : hidden_(layout.config().hidden),
      tensor_size_(layout.part().tensor_size),
      num_heads_(layout.config().num_heads / tensor_size_) {
  const size_t r = batch * tokens, c = hidden_, k = std::min(r, kClassifierRows);
  const auto make = [&](const Shape& shape, MemorySource* source = nullptr) {
    return Tensor(memory, Category::workspace, dtype, shape, source);
  };
  d_residual_ = make({r * c});
  wide_ = make({4 * r * c / tensor_size_});
  row_dot_ = make({r * num_heads_});
  summed_ = make({r * c + (layout.has_classifier() ? 3 * k : 0)}, registered);
  if (!layout.has_classifier()) return;
  losses_ = make({r});
  logits_ = make({k, layout.num_tokens()});
}

size_t ModelWorkspace::num_elements(const Layout& layout, size_t batch, size_t tokens) {
  const size_t r = batch * tokens, c = layout.config().hidden, n = layout.part().tensor_size;
  const size_t k = std::min(r, kClassifierRows);
  return r * (2 * c + 4 * c / n + layout.config().num_heads / n) +
         (layout.has_classifier() ? r + k * (layout.num_tokens() + 3) : 0);
}

TensorView ModelWorkspace::d_residual(const Activations& a) const {
  return d_residual_.view().elements(0, {a.batch() * a.tokens(), hidden_});
}

TensorView ModelWorkspace::losses(const Activations& a) const {
  return losses_.view().elements(0, {a.batch() * a.tokens()});
}

BlockWorkspace ModelWorkspace::block(const Activations& a) const {
  const size_t r = a.batch() * a.tokens();
  return {.narrow = summed_.view().elements(0, {r, hidden_}),
          .wide = wide_.view().elements(0, {r, 4 * hidden_ / tensor_size_}),
          .row_dot = row_dot_.view().elements(0, {a.batch(), num_heads_, a.tokens()})};
}

ClassifierWorkspace ModelWorkspace::classifier() const {
  const size_t k = logits_.shape()[0];
  return {logits_, summed_.view().rows(summed_.shape()[0] - 3 * k, 3 * k)};
}

}  // namespace ladder
