#include "tools/course/pictures/block_split.h"

#include <algorithm>
#include <vector>

#include "common/io/svg.h"
#include "common/model/block.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr double kUnit = 54;  // of C elements
constexpr double kGap = 14, kLeft = 90, kLabel = 26;

// A rectangle of rows and columns of a weight.
struct Part {
  size_t row, column, num_rows, num_columns;
};

// What the rank holds of a weight, from where its runs lie.
std::vector<Part> parts_of(const Parameter& weight) {
  const size_t rows = weight.full_shape[0], columns = weight.full_shape[1];
  const Ranges& ranges = weight.ranges;
  if (ranges.length >= columns)
    return {{ranges.first / columns, 0, ranges.length / columns, columns}};
  std::vector<Part> parts;  // the runs of the first row; the others have the same columns
  for (size_t column = ranges.first; column < columns; column += ranges.stride) {
    parts.push_back({0, column, rows, ranges.length});
  }
  return parts;
}

// One sublayer, drawn from left to right, everything centred on one line.
class Row {
 public:
  Row(Svg& svg, double middle, size_t hidden)
      : svg_(svg), middle_(middle), scale_(kUnit / static_cast<double>(hidden)) {}

  void box(Colour colour, const std::string& text, double width) {
    constexpr double kHeight = 30;
    reach(kGap);
    svg_.rect(colour, x_, middle_ - kHeight / 2, width, kHeight);
    svg_.text(x_ + width / 2, middle_ + 4, text, {.anchor = Svg::Anchor::middle});
    x_ += width;
  }

  // Its name stands above, how it is split below.
  void weight(const Parameter& weight, const std::string& name, const std::string& split) {
    const double width = scale_ * static_cast<double>(weight.full_shape[1]);
    const double height = scale_ * static_cast<double>(weight.full_shape[0]);
    const double top = middle_ - height / 2;
    reach(kGap);
    svg_.rect(Colour::idle, x_, top, width, height);
    for (const Part& part : parts_of(weight)) {
      svg_.rect(Colour::parameters, x_ + scale_ * static_cast<double>(part.column),
                top + scale_ * static_cast<double>(part.row),
                scale_ * static_cast<double>(part.num_columns),
                scale_ * static_cast<double>(part.num_rows));
    }
    const Svg::TextStyle centred = {.anchor = Svg::Anchor::middle};
    svg_.text(x_ + width / 2, top - 8, name, centred);
    svg_.text(x_ + width / 2, top + height + 17, split, centred);
    x_ += width;
  }

  void end(double x) {
    svg_.arrow(x_, middle_, x, middle_);
    x_ = x;
  }

 private:
  // A short line from what was drawn last to what comes next.
  void reach(double length) {
    svg_.line(x_, middle_, x_ + length, middle_);
    x_ += length;
  }

  Svg& svg_;
  double middle_, scale_, x_ = kLeft;
};

std::string split_text(TensorSplit split) {
  switch (split) {
    case TensorSplit::none:
      return "whole";
    case TensorSplit::rows:
      return "rows";
    case TensorSplit::columns:
      return "columns";
    case TensorSplit::qkv_columns:
      return "columns of q, of k, of v";
  }
  return "?";
}

}  // namespace

std::string block_split(const Gpt2Config& config, size_t rank, size_t num_ranks) {
  const ModelDescription model = describe(config);
  const auto block = std::ranges::find(model.operations, OperationKind::block, &Operation::kind);
  check(block != model.operations.end(), "block_split: a model without a block");
  const UnitSpec& spec = model.units[block->unit];
  const Layout layout(model, 1, {.tensor_rank = rank, .tensor_size = num_ranks});
  const Unit& unit = layout.unit(block->unit);
  constexpr double kWidth = 810, kFirst = 130, kSecond = 364, kEnd = 740;
  Svg svg(kWidth, 544);
  svg.text(
      10, 26,
      concat("A transformer block on rank ", rank, " of ", num_ranks, " tensor-parallel ranks"),
      {.size = 16, .bold = true});

  Row attention(svg, kFirst, config.hidden), mlp(svg, kSecond, config.hidden);
  // A weight, with f before it or g after it if the split needs one.
  const auto weight = [&](Row& row, size_t index) {
    const ParameterSpec& parameter = spec.parameters[index];
    const std::string name = parameter.name.substr(spec.name.size() + 1);
    const TensorSplit split = parameter.split;
    if (split == TensorSplit::columns || split == TensorSplit::qkv_columns) {
      row.box(Colour::communication, "f", 26);
    }
    row.weight(unit.parameters[index], name.substr(0, name.rfind('.')), split_text(split));
    if (split == TensorSplit::rows) row.box(Colour::communication, "g", 26);
  };
  const auto draw = [&](Row& row, const Sublayer& sublayer, const std::string& between) {
    row.box(Colour::plain, sublayer.names[SublayerOperation::norm], 44);
    weight(row, sublayer.parameter(SublayerParameter::first_weight));
    row.box(Colour::activations, between, 96);
    weight(row, sublayer.parameter(SublayerParameter::second_weight));
    row.end(kEnd);
  };
  draw(attention, block->sublayers[kAttention],
       concat(config.num_heads / num_ranks, " of ", config.num_heads, " heads"));
  draw(mlp, block->sublayers[kMlp], block->sublayers[kMlp].names[SublayerOperation::core]);

  // The residual stream: past the first sublayer, to the second one below, and past that.
  constexpr double kFork = kLeft - 30, kPlus = kEnd + 8, kBetween = kFirst + 66;
  const auto pass = [&](double middle, double above) {
    svg.line(kFork - 20, middle, kLeft, middle);
    svg.line(kFork, middle, kFork, above);
    svg.line(kFork, above, kPlus, above);
    svg.arrow(kPlus, above, kPlus, middle - 8);
    svg.text(kPlus, middle + 5, "+", {.anchor = Svg::Anchor::middle, .size = 16, .bold = true});
  };
  pass(kFirst, kFirst - 78);
  pass(kSecond, kSecond - 148);
  svg.text(4, kFirst + 4, "input");
  svg.line(kPlus, kFirst + 8, kPlus, kBetween);
  svg.line(kPlus, kBetween, kFork - 20, kBetween);
  svg.line(kFork - 20, kBetween, kFork - 20, kSecond);
  svg.arrow(kPlus + 8, kSecond, kPlus + 50, kSecond);
  double x = svg.legend(10, 518, Colour::parameters, "this rank's part of a weight");
  x = svg.legend(x, 518, Colour::idle, "the other ranks'");
  svg.legend(x, 518, Colour::communication, "sums over the ranks: g in forward, f in backward");
  return svg.str();
}

}  // namespace ladder
