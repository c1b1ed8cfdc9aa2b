#include "common/model/activations.h"

#include <algorithm>

namespace ladder {
namespace {

// Of what tensor-parallel ranks sum, in numbers of the accumulation dtype: narrow, then the
// classifier's.
size_t summed_elements(const Layout& layout, DType dtype, size_t rows) {
  const size_t number = size_of(accumulation_dtype(dtype));
  const size_t narrow = (rows * layout.config().hidden * size_of(dtype) + number - 1) / number;
  return narrow + (layout.has_classifier() ? 3 * std::min(rows, kClassifierRows) : 0);
}

}  // namespace

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
  const auto numbers = [&](size_t elements) {
    return Tensor(memory, Category::activations, accumulation_dtype(dtype), {elements});
  };
  input_ = make(r * c);
  for (size_t layer = 0; layer < layout.num_layers(); ++layer) {
    blocks_.push_back({make(r * c), numbers(r), numbers(r), make(3 * r * slice),
                       numbers(r * num_heads_), make(r * slice), make(r * c), make(r * c),
                       numbers(r), numbers(r), make(4 * r * slice), make(4 * r * slice),
                       make(r * c)});
  }
  if (!layout.has_classifier()) return;
  final_norm_ = make(r * c);
  final_mean_ = numbers(r);
  final_rstd_ = numbers(r);
}

size_t Activations::num_bytes(const Layout& layout, DType dtype, size_t batch, size_t tokens) {
  const size_t c = layout.config().hidden, n = layout.part().tensor_size;
  const size_t l = layout.num_layers(), last = layout.has_classifier() ? 1 : 0;
  const size_t elements = l * (4 * c + 12 * c / n) + c + last * c;
  const size_t numbers = l * (layout.config().num_heads / n + 4) + last * 2;
  return batch * tokens *
         (elements * size_of(dtype) + numbers * size_of(accumulation_dtype(dtype)));
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
  const DType numbers = accumulation_dtype(dtype);
  const auto make = [&](DType type, const Shape& shape, MemorySource* source = nullptr) {
    return Tensor(memory, Category::workspace, type, shape, source);
  };
  d_residual_ = make(dtype, {r * c});
  wide_ = make(dtype, {4 * r * c / tensor_size_});
  row_dot_ = make(numbers, {r * num_heads_});
  summed_ = make(numbers, {summed_elements(layout, dtype, r)}, registered);
  if (!layout.has_classifier()) return;
  losses_ = make(numbers, {r});
  logits_ = make(numbers, {k, layout.num_tokens()});
  if (numbers != dtype) dlogits_ = make(dtype, {k, layout.num_tokens()});
}

size_t ModelWorkspace::num_bytes(const Layout& layout, DType dtype, size_t batch, size_t tokens) {
  const size_t r = batch * tokens, c = layout.config().hidden, n = layout.part().tensor_size;
  const size_t k = std::min(r, kClassifierRows);
  const DType numbers = accumulation_dtype(dtype);
  size_t bytes =
      r * (c + 4 * c / n) * size_of(dtype) +
      (r * (layout.config().num_heads / n) + summed_elements(layout, dtype, r)) * size_of(numbers);
  if (layout.has_classifier()) {
    bytes += (r + k * layout.num_tokens()) * size_of(numbers);
    if (numbers != dtype) bytes += k * layout.num_tokens() * size_of(dtype);
  }
  return bytes;
}

TensorView ModelWorkspace::d_residual(const Activations& a) const {
  return d_residual_.view().elements(0, {a.batch() * a.tokens(), hidden_});
}

TensorView ModelWorkspace::losses(const Activations& a) const {
  return losses_.view().elements(0, {a.batch() * a.tokens()});
}

BlockWorkspace ModelWorkspace::block(const Activations& a) const {
  const size_t r = a.batch() * a.tokens();
  const TensorView wide = wide_;
  return {.narrow = TensorView(summed_.view().data(), wide.dtype(), wide.device(), {r, hidden_}),
          .wide = wide.elements(0, {r, 4 * hidden_ / tensor_size_}),
          .row_dot = row_dot_.view().elements(0, {a.batch(), num_heads_, a.tokens()})};
}

ClassifierWorkspace ModelWorkspace::classifier() const {
  const size_t k = logits_.shape()[0];
  const TensorView dlogits = dlogits_.view().empty() ? logits_.view() : dlogits_.view();
  return {logits_, dlogits, summed_.view().rows(summed_.shape()[0] - 3 * k, 3 * k)};
}

}  // namespace ladder
