#include "common/model/adapters.h"

#include "kernels/elementwise.h"
#include "kernels/matmul.h"

namespace ladder {
namespace {

using P = LinearParameter;

// Returns columns [first, first + count) of a matrix.
template <class View>
View columns(View matrix, size_t first, size_t count) {
  // The first row begins there. What the view of its length has beyond the last row is cut off.
  auto* const begin =
      static_cast<std::conditional_t<std::is_same_v<View, TensorView>, char, const char>*>(
          matrix.data()) +
      first * size_of(matrix.dtype());
  return View(begin, matrix.dtype(), matrix.device(), matrix.shape()).first_columns(count);
}

}  // namespace

std::vector<Adapters::Adapted> Adapters::parts() const {
  const std::vector<ConstTensorView> weights = weights_.each(index_ + P::weight);
  const std::vector<ConstTensorView> all_b = weights_.each(index_ + P::adapter_b);
  std::vector<Adapted> parts;
  size_t output = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (linear_.parts[i].is_adapted) {
      const size_t number = parts.size();
      parts.push_back({all_b[number], number, output, number * linear_.adapter_rank});
    }
    output += weights[i].shape()[linear_.out_first ? 0 : 1];
  }
  return parts;
}

TensorView Adapters::h(ConstTensorView rows) const {
  return scratch_.elements(0, {rows.shape()[0], linear_.adapter_columns()});
}

TensorView Adapters::d_h(ConstTensorView rows) const {
  return scratch_.elements(h(rows).num_elements(), h(rows).shape());
}

void Adapters::compute_h(Stream& stream, ConstTensorView in) const {
  matmul(stream, h(in), in, weights_[index_ + P::adapter_a], {.transpose_b = true});
  scale(stream, h(in), h(in), linear_.adapter_scale);
}

void Adapters::forward(Stream& stream, TensorView out, ConstTensorView in) const {
  if (empty()) return;
  compute_h(stream, in);
  for (const Adapted& part : parts()) {
    matmul(stream, columns(out, part.first_output, part.b.shape()[0]),
           columns(h(in), part.first_column, linear_.adapter_rank), part.b,
           {.transpose_b = true, .accumulate = true});
  }
}

void Adapters::backward_input(Stream& stream, TensorView din, ConstTensorView dout) const {
  if (empty()) return;
  for (const Adapted& part : parts()) {
    matmul(stream, columns(d_h(dout), part.first_column, linear_.adapter_rank),
           columns(dout, part.first_output, part.b.shape()[0]), part.b);
  }
  scale(stream, d_h(dout), d_h(dout), linear_.adapter_scale);
  matmul(stream, din, d_h(dout), weights_[index_ + P::adapter_a], {.accumulate = true});
}

void Adapters::backward_weight(Stream& stream, const UnitView& gradients, ConstTensorView dout,
                               ConstTensorView in) const {
  if (empty()) return;
  const TensorView d_a = gradients[index_ + P::adapter_a];
  if (!d_a.empty()) {
    matmul(stream, d_a, d_h(in), in, {.transpose_a = true, .accumulate = true});
  }
  const std::vector<TensorView> all_d_b = gradients.each(index_ + P::adapter_b);
  if (all_d_b.empty()) return;
  compute_h(stream, in);
  for (const Adapted& part : parts()) {
    matmul(stream, all_d_b[part.number], columns(dout, part.first_output, part.b.shape()[0]),
           columns(h(in), part.first_column, linear_.adapter_rank),
           {.transpose_a = true, .accumulate = true});
  }
}

}  // namespace ladder
