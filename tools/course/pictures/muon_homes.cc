#include "tools/course/pictures/muon_homes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/io/svg.h"
#include "common/io/text.h"
#include "common/model/muon_homes.h"

namespace ladder {
namespace {

constexpr size_t kRanks = 8;
constexpr double kLeft = 64, kTop = 62, kRow = 20, kBar = 16, kGap = 46, kWidth = 560;

struct Kind {
  const char* suffix;
  Colour colour;
};
constexpr std::array kKinds = {
    Kind{"attn.c_attn.weight", Colour::forward}, Kind{"attn.c_proj.weight", Colour::optimizer},
    Kind{"mlp.c_fc.weight", Colour::communication}, Kind{"mlp.c_proj.weight", Colour::backward}};

Colour colour_of(const std::string& name) {
  return std::ranges::find_if(kKinds, [&](const Kind& kind) { return name.ends_with(kind.suffix); })
      ->colour;
}

void draw_homes(Svg& svg, double top, const OptimizerConfig& optimizer, const MuonHomes& homes,
                const std::string& name, double flops_across) {
  double most = 0, all = 0;
  for (size_t home = 0; home < kRanks; ++home) {
    const double y = top + kRow * static_cast<double>(home);
    svg.text(10, y + kBar - 3, concat("rank ", home));
    double x = kLeft;
    for (const HomedWeight* weight : homes.at(home)) {
      const Parameter& parameter = *weight->parts[0].slice;
      const double width = kWidth * muon_flops(optimizer, parameter) / flops_across;
      svg.box(colour_of(parameter.name), x, y, width, kBar, parameter.name);
      x += width;
    }
    most = std::max(most, homes.flops_at(home));
    all += homes.flops_at(home);
  }
  svg.text(kLeft, top - 8,
           format("%s: the longest home has %.2f times the mean", name.c_str(),
                  most / all * static_cast<double>(kRanks)));
}

}  // namespace

std::string draw_muon_homes() {
  OptimizerConfig optimizer;
  optimizer.name = "muon";
  const Layout layout(find_preset("gpt2").config, kRanks);
  const auto homes_by = [&](HomeChoice choice) {
    return MuonHomes::Group{.size = kRanks, .has_shards = true, .choice = choice};
  };
  const MuonHomes longest(optimizer, layout, 0, homes_by(HomeChoice::longest_first));
  const MuonHomes in_turn(optimizer, layout, 0, homes_by(HomeChoice::in_turn));
  double most = 0;
  for (size_t home = 0; home < kRanks; ++home) most = std::max(most, in_turn.flops_at(home));
  const double block = kRow * static_cast<double>(kRanks) + kGap;
  Svg svg(kLeft + kWidth + 20, kTop + 2 * block);
  svg.title("Homes of the 48 weights of GPT-2, by the work of five iterations");
  draw_homes(svg, kTop, optimizer, longest, "longest-first", most);
  draw_homes(svg, kTop + block, optimizer, in_turn, "in-turn", most);
  double x = kLeft;
  for (const Kind& kind : kKinds) {
    x = svg.legend(x, kTop + 2 * block - kGap + 16, kind.colour, kind.suffix);
  }
  return svg.str();
}

}  // namespace ladder
