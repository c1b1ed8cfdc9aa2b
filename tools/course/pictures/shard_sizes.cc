#include "tools/course/pictures/shard_sizes.h"

#include <algorithm>
#include <vector>

#include "common/cluster/cluster.h"
#include "common/io/svg.h"
#include "common/io/text.h"
#include "common/train/program/program.h"
#include "common/train/run/simulated_rank.h"
#include "common/train/run/virtual_run.h"
#include "lessons/21_hybrid_shard/trainer.h"

namespace ladder {
namespace {

constexpr double kLeft = 70, kTop = 64, kWidth = 560, kHeight = 300, kDot = 9;
constexpr double kMost = 1300;  // ms, at the top
constexpr size_t kRanks = 64, kSizes = 7;

double x_of(size_t i) {
  return kLeft + kWidth * (static_cast<double>(i) + 0.5) / static_cast<double>(kSizes);
}
double y_of(double ms) { return kTop + kHeight * (1 - ms / kMost); }

struct Network {
  const char *cluster, *name;
  Colour colour;
};
constexpr Network kNetworks[] = {{"h100x8x8@ib-8x400g", "eight fast adapters", Colour::forward},
                                 {"h100x8x8@efa-8x400g", "eight slow starters", Colour::backward},
                                 {"h100x8x8@ib-1x400g", "one adapter", Colour::communication}};

double step_ms(const Network& network, size_t shard_size) {
  const Program program = make_program<HybridShardTrainer>();
  const std::string flags =
      concat("--device virtual --cluster ", network.cluster, " --ranks ", kRanks,
             " --model gpt2-xl --dtype bf16 --global-batch-size 1024 --micro-batch-size 4 "
             "--recompute block --shard-size ",
             shard_size);
  const RunConfig config = resolve_flags(program, words_of(flags), kRanks);
  const Cluster cluster = read_cluster(network.cluster);
  return 1e3 * VirtualRun(program, config, cluster, kRanks).run().seconds;
}

void draw_axes(Svg& svg) {
  const double bottom = kTop + kHeight;
  svg.line(kLeft, kTop, kLeft, bottom);
  svg.line(kLeft, bottom, kLeft + kWidth, bottom);
  for (size_t i = 0; i < kSizes; ++i) {
    svg.text(x_of(i), bottom + 18, concat(size_t{1} << i), {.anchor = Svg::Anchor::middle});
  }
  for (double ms = 0; ms <= kMost; ms += 200) {
    svg.line(kLeft - 4, y_of(ms), kLeft, y_of(ms));
    svg.text(kLeft - 8, y_of(ms) + 4, concat(ms), {.anchor = Svg::Anchor::end});
  }
  svg.text(kLeft + kWidth, bottom + 36, "GPUs that share a copy; 8 are a machine",
           {.anchor = Svg::Anchor::end});
  svg.text(10, kTop - 10, "ms a step");
}

}  // namespace

std::string draw_shard_sizes() {
  Svg svg(kLeft + kWidth + 30, kTop + kHeight + 50);
  svg.title("GPT-2 XL on 64 GPUs, with the fewest ms of each network");
  draw_axes(svg);
  double legend = kLeft + 20;
  for (const Network& network : kNetworks) {
    std::vector<double> ms;
    for (size_t i = 0; i < kSizes; ++i) ms.push_back(step_ms(network, size_t{1} << i));
    Svg::Points points;
    for (size_t i = 0; i < kSizes; ++i) points.emplace_back(x_of(i), y_of(ms[i]));
    svg.curve(network.colour, points);
    for (const auto& [x, y] : points) {
      svg.rect(network.colour, x - kDot / 2, y - kDot / 2, kDot, kDot);
    }
    legend = svg.legend(legend, kTop - 20, network.colour,
                        format("%s: %.0f", network.name, std::ranges::min(ms)));
  }
  return svg.str();
}

}  // namespace ladder
