#include "common/model/activations.h"

#include <algorithm>

namespace ladder {

Activations::Activations(Memory& memory, const Gpt2Config& config, DType dtype, size_t batch,
                         size_t tokens)
    : config_(config), batch_(batch), tokens_(tokens) {
  const size_t r = batch * tokens, c = config.hidden;
  const auto make = [&](size_t elements) {
    return Tensor(memory, Category::activations, dtype, {elements});
  };
  embedded_ = make(r * c);
  for (size_t layer = 0; layer < config.num_layers; ++layer) {
    blocks_.push_back({make(r * c), make(r), make(r), make(3 * r * c), make(r * config.num_heads),
                       make(r * c), make(r * c), make(r * c), make(r), make(r), make(4 * r * c),
                       make(4 * r * c), make(r * c)});
  }
  final_norm_ = make(r * c);
  final_mean_ = make(r);
  final_rstd_ = make(r);
}

size_t Activations::num_elements(const Gpt2Config& config, size_t batch, size_t tokens) {
  const size_t l = config.num_layers;
  return batch * tokens * (config.hidden * (16 * l + 2) + l * (config.num_heads + 4) + 2);
}

void Activations::resize(size_t batch, size_t tokens) {
  check(batch * tokens <= final_mean_.shape()[0], "Activations::resize: more than was allocated");
  batch_ = batch;
  tokens_ = tokens;
}

BlockActivations Activations::block(size_t layer) const {
  const Block& b = blocks_[layer];
  const size_t c = config_.hidden;
  return {.ln_1 = rows(b.ln_1, c),
          .ln_1_mean = rows(b.ln_1_mean),
          .ln_1_rstd = rows(b.ln_1_rstd),
          .qkv = rows(b.qkv, 3 * c),
          .logsumexp = b.logsumexp.view().elements(0, {batch_, config_.num_heads, tokens_}),
          .attention = rows(b.attention, c),
          .middle = rows(b.middle, c),
          .ln_2 = rows(b.ln_2, c),
          .ln_2_mean = rows(b.ln_2_mean),
          .ln_2_rstd = rows(b.ln_2_rstd),
          .fc = rows(b.fc, 4 * c),
          .gelu = rows(b.gelu, 4 * c),
          .out = rows(b.out, c)};
}

TensorView Activations::block_input(size_t layer) const {
  return layer == 0 ? embedded() : rows(blocks_[layer - 1].out, config_.hidden);
}

ModelWorkspace::ModelWorkspace(Memory& memory, const Gpt2Config& config, DType dtype, size_t batch,
                               size_t tokens)
    : config_(config) {
  const size_t r = batch * tokens, c = config.hidden, k = std::min(r, kClassifierRows);
  const auto make = [&](const Shape& shape) {
    return Tensor(memory, Category::workspace, dtype, shape);
  };
  d_residual_ = make({r * c});
  narrow_ = make({r * c});
  wide_ = make({4 * r * c});
  row_dot_ = make({r * config.num_heads});
  losses_ = make({r});
  logits_ = make({k, config.vocab_size});
  maximum_ = make({k});
  sum_ = make({k});
  target_logit_ = make({k});
}

size_t ModelWorkspace::num_elements(const Gpt2Config& config, size_t batch, size_t tokens) {
  const size_t r = batch * tokens;
  return r * (6 * config.hidden + config.num_heads + 1) +
         std::min(r, kClassifierRows) * (config.vocab_size + 3);
}

TensorView ModelWorkspace::d_residual(const Activations& a) const {
  return d_residual_.view().elements(0, {a.batch() * a.tokens(), config_.hidden});
}

TensorView ModelWorkspace::losses(const Activations& a) const {
  return losses_.view().elements(0, {a.batch() * a.tokens()});
}

BlockWorkspace ModelWorkspace::block(const Activations& a) const {
  const size_t r = a.batch() * a.tokens(), c = config_.hidden;
  return {.narrow = narrow_.view().elements(0, {r, c}),
          .wide = wide_.view().elements(0, {r, 4 * c}),
          .row_dot = row_dot_.view().elements(0, {a.batch(), config_.num_heads, a.tokens()})};
}

ClassifierWorkspace ModelWorkspace::classifier() const {
  return {logits_, maximum_, sum_, target_logit_};
}

}  // namespace ladder
