#include "tools/course/pictures/block_split.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/io/svg.h"
#include "common/model/activations.h"
#include "common/model/block.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr double kWeight = 40, kActivation = 14;  // of C elements
constexpr double kTokens = 48;                    // all tokens of an activation
constexpr double kGap = 10, kLeft = 64, kEnd = 640;
constexpr double kFirst = 132, kSecond = 372;  // the middles of the two sublayers
constexpr Svg::TextStyle kCentred = {.anchor = Svg::Anchor::middle};

// A rectangle of rows and columns of a tensor.
struct Part {
  size_t row, column, num_rows, num_columns;
};

// What the rank holds of a weight, from where its ranges lie.
std::vector<Part> parts_of(const Parameter& weight) {
  const size_t rows = weight.full_shape[0], columns = weight.full_shape[1];
  const Ranges& ranges = weight.ranges;
  if (ranges.length >= columns)
    return {{ranges.first / columns, 0, ranges.length / columns, columns}};
  std::vector<Part> parts;  // the ranges of the first row; the others have the same columns
  for (size_t column = ranges.first; column < columns; column += ranges.stride) {
    parts.push_back({0, column, rows, ranges.length});
  }
  return parts;
}

// A linear layer's weight as it is drawn, (in, out), and what the rank holds of it.
struct Weight {
  std::string name;  // "attn.c_attn", "mlp.gate_proj, up_proj"
  size_t rows = 0, columns = 0;
  std::vector<Part> held;
};

// The layer's parts stand side by side. A weight that is stored as (out, in) is drawn turned.
Weight weight_of(const Unit& unit, size_t index, const std::string& group, const Linear& linear) {
  Weight weight = {.name = group, .rows = linear.in, .columns = 0, .held = {}};
  for (const LinearPart& part : linear.parts) {
    weight.name += concat(weight.columns == 0 ? "." : ", ", part.name);
    weight.columns += part.out;
  }
  size_t first = 0;
  for (const Parameter& parameter : unit.parameters) {
    if (parameter.index != index) continue;
    for (Part part : parts_of(parameter)) {
      if (linear.out_first) part = {part.column, part.row, part.num_columns, part.num_rows};
      part.column += first;
      weight.held.push_back(part);
    }
    first += parameter.full_shape[linear.out_first ? 0 : 1];
  }
  return weight;
}

// What the rank holds of an activation of `rows` tokens. q, k and v lie side by side, and so do the
// other parts of a linear layer's output.
std::vector<Part> parts_of(const ActivationSpec& spec, bool is_qkv, const ModelPartition& part,
                           size_t rows) {
  if (!spec.split) {
    const RowSplit split = part.residual();
    return {{split.first(rows), 0, split.count(rows), spec.columns}};
  }
  std::vector<LinearPart> vectors = spec.parts;
  if (is_qkv) vectors.assign(3, {"", spec.columns / 3});
  if (vectors.empty()) vectors = {{"", spec.columns}};
  std::vector<Part> parts;
  size_t first = 0;
  for (const LinearPart& v : vectors) {
    const size_t slices = num_slices(v.most_slices, part.tensor_size), own = v.out / slices;
    parts.push_back({0, first + part.tensor_rank * slices / part.tensor_size * own, rows, own});
    first += v.out;
  }
  return parts;
}

// "3 C" or "5/3 C" of so many columns.
std::string columns_text(size_t columns, size_t hidden) {
  const size_t common = std::gcd(columns, hidden), times = columns / common, of = hidden / common;
  const std::string fraction = of == 1 ? concat(times) : concat(times, "/", of);
  return columns == hidden ? "C" : concat(fraction, " C");
}

std::string split_text(const Linear& linear) {
  if (linear.split == TensorSplit::qkv_columns) return "columns of q, k and v";
  return linear.splits_outputs() ? "columns" : "rows";
}

// One sublayer, drawn from left to right, everything centred on one line.
class Row {
 public:
  Row(Svg& svg, double middle, size_t hidden) : svg_(svg), middle_(middle), hidden_(hidden) {}

  void box(Colour colour, const std::string& text, double width) {
    constexpr double kHeight = 30;
    reach(kGap);
    svg_.rect(colour, x_, middle_ - kHeight / 2, width, kHeight);
    svg_.label(colour, x_, middle_ - kHeight / 2, width, kHeight, text);
    x_ += width;
  }

  // Its name stands above, how it is split below.
  void weight(const Weight& weight, const std::string& split) {
    reach(kGap);
    const double scale = kWeight / static_cast<double>(hidden_);
    const auto [width, height] =
        matrix(x_, weight.rows, weight.columns, scale, scale, Colour::parameters, weight.held);
    const double most = kEnd - text_width(weight.name, kCentred.size) / 2;  // before the stream
    svg_.text(std::min(x_ + width / 2, most), middle_ - height / 2 - 8, weight.name, kCentred);
    if (!split.empty()) svg_.text(x_ + width / 2, middle_ + height / 2 + 17, split, kCentred);
    x_ += width;
  }

  // At x, with its columns below.
  double activation(double x, size_t columns, size_t tokens, const std::vector<Part>& parts) {
    const double width = matrix(x, tokens, columns, kActivation / static_cast<double>(hidden_),
                                kTokens / static_cast<double>(tokens), Colour::activations, parts)
                             .first;
    svg_.text(x + width / 2, middle_ + kTokens / 2 + 17, columns_text(columns, hidden_), kCentred);
    return x + width;
  }
  void activation(size_t columns, size_t tokens, const std::vector<Part>& parts) {
    reach(kGap);
    x_ = activation(x_, columns, tokens, parts);
  }

  void end() { svg_.arrow(x_, middle_, kEnd, middle_); }

 private:
  // A short line from what was drawn last to what comes next.
  void reach(double length) {
    svg_.line(x_, middle_, x_ + length, middle_);
    x_ += length;
  }
  // Returns its width and height.
  std::pair<double, double> matrix(double x, size_t rows, size_t columns, double column_scale,
                                   double row_scale, Colour colour,
                                   const std::vector<Part>& parts) {
    const double width = column_scale * static_cast<double>(columns);
    const double height = row_scale * static_cast<double>(rows), top = middle_ - height / 2;
    svg_.rect(Colour::idle, x, top, width, height);
    for (const Part& part : parts) {
      svg_.rect(colour, x + column_scale * static_cast<double>(part.column),
                top + row_scale * static_cast<double>(part.row),
                column_scale * static_cast<double>(part.num_columns),
                row_scale * static_cast<double>(part.num_rows));
    }
    return {width, height};
  }

  Svg& svg_;
  double middle_;
  size_t hidden_;
  double x_ = kLeft;
};

// The residual stream around both rows: past the first sublayer, to the second one below, and past
// that. `part` is what the rank holds of it.
void draw_stream(Svg& svg, Row& attention, Row& mlp, size_t hidden, size_t tokens,
                 const std::vector<Part>& part) {
  constexpr double kFork = kLeft - 12, kPlus = kEnd + 8, kBetween = kFirst + 70, kOut = kPlus + 22;
  const auto pass = [&](double middle, double above) {
    svg.line(kFork, middle, kLeft, middle);
    svg.line(kFork, middle, kFork, above);
    svg.line(kFork, above, kPlus, above);
    svg.arrow(kPlus, above, kPlus, middle - 8);
    svg.text(kPlus, middle + 5, "+", {.anchor = Svg::Anchor::middle, .size = 16, .bold = true});
    svg.line(kPlus + 8, middle, kOut, middle);
  };
  pass(kFirst, kFirst - 64);
  pass(kSecond, kSecond - 122);
  constexpr double kIn = 20;
  svg.line(attention.activation(kIn, hidden, tokens, part), kFirst, kFork, kFirst);
  const double right = attention.activation(kOut, hidden, tokens, part) + 12;
  svg.line(right - 12, kFirst, right, kFirst);
  svg.line(right, kFirst, right, kBetween);
  svg.line(right, kBetween, kIn, kBetween);
  svg.line(kIn, kBetween, kIn, kSecond);
  svg.line(kIn, kSecond, kFork, kSecond);
  mlp.activation(kOut, hidden, tokens, part);
}

// What f and g do, and what differs from GPT-2's block.
void draw_legend(Svg& svg, bool is_gpt2, size_t num_ranks, bool splits_tokens) {
  constexpr double kTop = 492;
  const bool is_split = num_ranks > 1;
  double x =
      svg.legend(10, kTop, Colour::parameters, is_split ? "its part of a weight" : "weights");
  x = svg.legend(
      x, kTop, Colour::activations,
      is_split ? "its part of an activation" : "activations: tokens down, columns across");
  if (!is_gpt2 && !is_split) svg.legend(x, kTop, Colour::emphasis, "other than GPT-2's");
  if (!is_split) return;
  svg.legend(x, kTop, Colour::idle, "the other ranks'");
  svg.text(10, kTop + 77,
           "An activation has its tokens from top to bottom, its columns from left to right.");
  svg.legend(10, kTop + 22, Colour::communication,
             splits_tokens ? "f: all_gather in forward, reduce_scatter in backward"
                           : "f: nothing in forward, all_reduce in backward");
  svg.legend(10, kTop + 44, Colour::communication,
             splits_tokens ? "g: reduce_scatter in forward, all_gather in backward"
                           : "g: all_reduce in forward, nothing in backward");
}

// A block on one of `part.tensor_size` ranks.
struct Block {
  const Unit& unit;
  std::vector<ActivationSpec> specs;
  ModelPartition part;
  size_t tokens;

  const ActivationSpec& spec_of(const Sublayer& sublayer, SublayerOperation::Index i) const {
    return *std::ranges::find_if(specs, [&](const ActivationSpec& s) {
      return s.operation == sublayer.operation(i) && s.kind == ActivationSpec::Kind::rows;
    });
  }
};

void draw_core(Row& row, const Sublayer& sublayer, size_t num_ranks) {
  if (sublayer.core == Core::swiglu) return row.box(Colour::emphasis, "swiglu", 48);
  if (sublayer.core == Core::gelu) return row.box(Colour::plain, "gelu", 44);
  if (sublayer.is_rotary) row.box(Colour::emphasis, "rotary", 52);
  const size_t heads = sublayer.num_heads, shared = sublayer.key_value_heads;
  if (num_ranks > 1) {
    return row.box(Colour::plain, concat(heads / num_ranks, " of ", heads, " heads"), 100);
  }
  if (shared == heads) return row.box(Colour::plain, "attention", 100);
  row.box(Colour::emphasis, concat(heads, " heads, ", shared, " of k and v"), 160);
}

void draw_sublayer(Row& row, const Sublayer& sublayer, const Block& block) {
  using O = SublayerOperation;
  using P = SublayerParameter;
  const size_t num_ranks = block.part.tensor_size;
  const auto activation = [&](O::Index operation) {
    const ActivationSpec& s = block.spec_of(sublayer, operation);
    const bool is_qkv = operation == O::first && sublayer.first.split == TensorSplit::qkv_columns;
    row.activation(s.columns, block.tokens, parts_of(s, is_qkv, block.part, block.tokens));
  };
  // A weight, with f before it or g after it if the split needs one.
  const auto weight = [&](P::Index index, const Linear& linear) {
    const Weight w = weight_of(block.unit, sublayer.parameter(index), sublayer.group, linear);
    if (num_ranks == 1) return row.weight(w, "");
    if (linear.splits_outputs()) row.box(Colour::communication, "f", 26);
    row.weight(w, split_text(linear));
    if (!linear.splits_outputs()) row.box(Colour::communication, "g", 26);
  };
  const bool is_rmsnorm = sublayer.norm == Norm::rmsnorm;
  row.box(is_rmsnorm ? Colour::emphasis : Colour::plain,
          is_rmsnorm ? "rmsnorm" : sublayer.names[O::norm], is_rmsnorm ? 66 : 44);
  activation(O::norm);
  weight(P::first_weight, sublayer.first);
  activation(O::first);
  draw_core(row, sublayer, num_ranks);
  activation(O::core);
  weight(P::second_weight, sublayer.second);
  row.end();
}

}  // namespace

std::string block_split(const ModelConfig& config, size_t rank, size_t num_ranks,
                        bool splits_tokens) {
  const ModelPartition part = {
      .tensor_rank = rank, .tensor_size = num_ranks, .splits_tokens = splits_tokens};
  const Layout layout(config, 1, part);
  const auto& operations = layout.operations();
  const auto operation = std::ranges::find(operations, OperationKind::block, &Operation::kind);
  check(operation != operations.end(), "block_split: a model without a block");
  const auto& sublayers = operation->sublayers;
  const Block block = {.unit = layout.unit(operation->unit),
                       .specs = block_activation_specs(sublayers),
                       .part = part,
                       .tokens = config.sequence_length};
  Svg svg(714, num_ranks > 1 ? 582 : 514);
  const std::string title = config.is_gpt2() ? "A transformer block" : "The Llama family's block";
  svg.title(num_ranks == 1 ? title
                           : concat(title, ": what rank ", rank, " of ", num_ranks, " holds",
                                    splits_tokens ? ", with tokens split" : ""));
  Row attention(svg, kFirst, config.hidden), mlp(svg, kSecond, config.hidden);
  draw_sublayer(attention, sublayers[kAttention], block);
  draw_sublayer(mlp, sublayers[kMlp], block);
  draw_stream(svg, attention, mlp, config.hidden, block.tokens,
              parts_of(block.spec_of(sublayers[kAttention], SublayerOperation::second), false, part,
                       block.tokens));
  draw_legend(svg, config.is_gpt2(), num_ranks, splits_tokens);
  return svg.str();
}

}  // namespace ladder
