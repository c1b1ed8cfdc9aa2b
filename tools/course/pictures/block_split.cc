#include "tools/course/pictures/block_split.h"

#include <algorithm>
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

// What it holds of an activation of `rows` tokens. Attention's q, k and v lie side by side.
std::vector<Part> parts_of(const ActivationSpec& spec, bool is_qkv, const ModelPartition& part,
                           size_t rows) {
  if (!spec.split) {
    const RowSplit split = part.residual();
    return {{split.first(rows), 0, split.count(rows), spec.columns}};
  }
  const size_t vectors = is_qkv ? 3 : 1, columns = spec.columns / vectors;
  const size_t own = columns / part.tensor_size;
  std::vector<Part> parts;
  for (size_t i = 0; i < vectors; ++i) {
    parts.push_back({0, i * columns + part.tensor_rank * own, rows, own});
  }
  return parts;
}

// "3 C" of so many columns.
std::string columns_text(size_t columns, size_t hidden) {
  return columns == hidden ? "C" : concat(columns / hidden, " C");
}

std::string split_text(TensorSplit split) {
  switch (split) {
    case TensorSplit::none:
      return "whole";
    case TensorSplit::rows:
      return "rows";
    case TensorSplit::columns:
      return "columns";
    case TensorSplit::qkv_columns:
      return "columns of q, k and v";
  }
  return "?";
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
  void weight(const Parameter& weight, const std::string& name, const std::string& split) {
    reach(kGap);
    const double scale = kWeight / static_cast<double>(hidden_);
    const auto [width, height] = matrix(x_, weight.full_shape[0], weight.full_shape[1], scale,
                                        scale, Colour::parameters, parts_of(weight));
    svg_.text(x_ + width / 2, middle_ - height / 2 - 8, name, kCentred);
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

// What f and g do.
void draw_legend(Svg& svg, size_t num_ranks, bool splits_tokens) {
  constexpr double kTop = 492;
  const bool is_split = num_ranks > 1;
  double x =
      svg.legend(10, kTop, Colour::parameters, is_split ? "its part of a weight" : "weights");
  x = svg.legend(
      x, kTop, Colour::activations,
      is_split ? "its part of an activation" : "activations: tokens down, columns across");
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

}  // namespace

std::string block_split(const ModelConfig& config, size_t rank, size_t num_ranks,
                        bool splits_tokens) {
  const ModelDescription model = describe(config);
  const auto block = std::ranges::find(model.operations, OperationKind::block, &Operation::kind);
  check(block != model.operations.end(), "block_split: a model without a block");
  const UnitSpec& spec = model.units[block->unit];
  const ModelPartition part = {
      .tensor_rank = rank, .tensor_size = num_ranks, .splits_tokens = splits_tokens};
  const Layout layout(model, 1, part);
  const Unit& unit = layout.unit(block->unit);
  const size_t tokens = config.sequence_length;
  const std::vector<ActivationSpec> specs = block_activation_specs(block->sublayers);
  const auto spec_of = [&](const Sublayer& sublayer, SublayerOperation::Index operation) {
    return *std::ranges::find_if(specs, [&](const ActivationSpec& s) {
      return s.operation == sublayer.operation(operation) && s.kind == ActivationSpec::Kind::rows;
    });
  };
  Svg svg(714, num_ranks > 1 ? 582 : 514);
  svg.title(num_ranks == 1 ? "A transformer block"
                           : concat("A transformer block: what rank ", rank, " of ", num_ranks,
                                    " holds", splits_tokens ? ", with tokens split" : ""));
  const auto draw = [&](Row& row, const Sublayer& sublayer, const std::string& core, double width) {
    const auto activation = [&](SublayerOperation::Index operation) {
      const ActivationSpec& s = spec_of(sublayer, operation);
      const bool is_qkv =
          operation == SublayerOperation::first && sublayer.first.split == TensorSplit::qkv_columns;
      row.activation(s.columns, tokens, parts_of(s, is_qkv, part, tokens));
    };
    // A weight, with f before it or g after it if the split needs one.
    const auto weight = [&](SublayerParameter::Index index, TensorSplit split) {
      const ParameterSpec& parameter = spec.parameters[sublayer.parameter(index)];
      const std::string name = parameter.name.substr(spec.name.size() + 1);
      const bool is_split = num_ranks > 1;
      if (is_split && split != TensorSplit::rows) row.box(Colour::communication, "f", 26);
      row.weight(unit.parameters[sublayer.parameter(index)], name.substr(0, name.rfind('.')),
                 is_split ? split_text(split) : "");
      if (is_split && split == TensorSplit::rows) row.box(Colour::communication, "g", 26);
    };
    row.box(Colour::plain, sublayer.names[SublayerOperation::norm], 44);
    activation(SublayerOperation::norm);
    weight(SublayerParameter::first_weight, sublayer.first.split);
    activation(SublayerOperation::first);
    row.box(Colour::plain, core, width);
    activation(SublayerOperation::core);
    weight(SublayerParameter::second_weight, sublayer.second.split);
    row.end();
  };
  Row attention(svg, kFirst, config.hidden), mlp(svg, kSecond, config.hidden);
  draw(attention, block->sublayers[kAttention],
       num_ranks == 1 ? "attention"
                      : concat(config.num_heads / num_ranks, " of ", config.num_heads, " heads"),
       100);
  draw(mlp, block->sublayers[kMlp], block->sublayers[kMlp].names[SublayerOperation::core], 44);
  draw_stream(svg, attention, mlp, config.hidden, tokens,
              parts_of(spec_of(block->sublayers[kAttention], SublayerOperation::second), false,
                       part, tokens));
  draw_legend(svg, num_ranks, splits_tokens);
  return svg.str();
}

}  // namespace ladder
