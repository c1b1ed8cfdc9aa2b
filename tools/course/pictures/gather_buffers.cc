#include "tools/course/pictures/gather_buffers.h"

#include <algorithm>
#include <utility>

#include "common/train/program/prediction.h"
#include "kernels/runtime/check.h"
#include "lessons/05_zero3/trainer.h"
#include "tools/course/pictures/time_lanes.h"

namespace ladder {
namespace {

constexpr double kArrives = 0.5;  // the opacity of a unit that arrives

// A unit's parameters in a buffer.
struct Stay {
  size_t unit = 0;
  const void* buffer = nullptr;
  std::vector<Use> uses = {};                // that read them
  double begin = 0, arrived = 0, until = 0;  // microseconds; the first two are those of the gather
};

// The lesson's gatherer, which tells where units are gathered to.
class WatchedGatherer final : public UnitGatherer {
 public:
  using UnitGatherer::UnitGatherer;
  // The stays of a micro-batch, in the order of their gathers.
  std::vector<Stay> stays(const std::vector<Use>& walk) {
    const Hooks hooks = this->hooks(walk);
    for (const Use& use : walk) {
      if (use.reads_weights) {
        hooks.weights(use);
        const auto stay = std::find_if(stays_.rbegin(), stays_.rend(),
                                       [&](const Stay& s) { return s.unit == use.unit; });
        stay->uses.push_back(use);
      }
      hooks.done(use);
    }
    return stays_;
  }

 private:
  Work gather(size_t unit, UnitPart part, TensorView whole, const CallOptions& options) override {
    stays_.push_back({.unit = unit, .buffer = whole.data()});
    return UnitGatherer::gather(unit, part, whole, options);
  }

  std::vector<Stay> stays_;
};

std::vector<Stay> stays_of(const RunConfig& config, const Layout& layout,
                           const std::vector<Use>& walk) {
  Rehearsal rehearsal(config, {.data_size = kPicturedRanks});
  const TrainerContext context = rehearsal.context();
  ModelState state(context, layout, 0, {.parameters = {.is_sharded = true}});
  return WatchedGatherer(context, state, context.ranks->world, {}).stays(walk);
}

StepSpan& span_of(const Use& use, FirstRank& step, const Layout& layout) {
  const auto span = std::ranges::find_if(step.computes, [&](const StepSpan& s) {
    return s.unit == layout.unit(use.unit).name && s.what == name_of(use.pass);
  });
  check(span != step.computes.end(), "draw_gather_buffers: a use has no span");
  return *span;
}

// What the rank communicates: it gathers for the stays, in their order, and sums the units'
// gradients as they become final. Sets the stays' times, and lets a use begin when its weights have
// come.
std::vector<TimeBox> add_times(std::vector<Stay>& stays, FirstRank& step,
                               const std::vector<Use>& walk, const Layout& layout) {
  std::vector<std::string> sums;
  for (const Use& use : walk) {
    if (use.gradient_is_final) sums.push_back(layout.unit(use.unit).name);
  }
  std::vector<TimeBox> boxes;
  size_t next_stay = 0, next_sum = 0;
  for (const StepSpan& span : step.communicates) {
    if (span.what == "all_gather" && next_stay < stays.size()) {
      Stay& stay = stays[next_stay++];
      stay.begin = span.from;
      stay.arrived = span.to;
      boxes.push_back({span.from, span.to, Colour::parameters, layout.unit(stay.unit).name});
    } else if (span.what == "reduce_scatter" && next_sum < sums.size()) {
      boxes.push_back({span.from, span.to, Colour::communication, sums[next_sum++]});
    }
  }
  check(next_stay == stays.size() && next_sum == sums.size(),
        "draw_gather_buffers: a transfer is missing");
  for (Stay& stay : stays) {
    for (const Use& use : stay.uses) {
      StepSpan& span = span_of(use, step, layout);
      span.from = std::max(span.from, stay.arrived);
      stay.until = std::max(stay.until, span.to);
    }
  }
  return boxes;
}

}  // namespace

std::string draw_gather_buffers() {
  FirstRank step = simulate_first_rank(make_program<Zero3Trainer>());
  const Layout layout(step.config.model, kPicturedRanks);
  const std::vector<Use> walk = training_walk(layout);
  std::vector<Stay> stays = stays_of(step.config, layout, walk);
  const std::vector<TimeBox> transfers = add_times(stays, step, walk, layout);
  // In the order of their first gathers.
  std::vector<std::pair<const void*, std::vector<TimeBox>>> buffers;
  for (const Stay& stay : stays) {
    auto buffer =
        std::ranges::find(buffers, stay.buffer, [](const auto& entry) { return entry.first; });
    if (buffer == buffers.end()) buffer = buffers.insert(buffer, {stay.buffer, {}});
    buffer->second.push_back({stay.begin, stay.arrived, Colour::parameters, "", kArrives});
    buffer->second.push_back(
        {stay.arrived, stay.until, Colour::parameters, layout.unit(stay.unit).name});
  }
  constexpr double kTop = 66, kLane = TimeLanes::kBox + 22;
  const double bottom = kTop + kLane * static_cast<double>(2 + buffers.size()) - 4;
  Svg svg(720, bottom + 86);
  svg.title("A step of lesson 05 on four simulated GPUs: rank 0");
  TimeLanes lanes(svg, step.end);
  lanes.lane(kTop, "computes", step.end, boxes_of(step.computes));
  lanes.lane(kTop + kLane, "communicates", step.end, transfers);
  for (size_t i = 0; i < buffers.size(); ++i) {
    const std::vector<TimeBox>& boxes = buffers[i].second;
    const std::string& unit = boxes.back().name;
    const bool has_one = std::ranges::all_of(
        boxes, [&](const TimeBox& box) { return box.name.empty() || box.name == unit; });
    lanes.lane(kTop + kLane * static_cast<double>(2 + i),
               has_one ? unit + "'s own" : concat("buffer ", i), step.end, boxes);
  }
  lanes.axis(bottom);
  lanes.legend(bottom + 34, "waits, or empty");
  svg.shade(Colour::parameters, kArrives, 10, bottom + 56, 12, 12);
  svg.text(27, bottom + 67, "a unit arrives");
  svg.legend(130, bottom + 56, Colour::parameters, "gathers; in a buffer: a unit can be read");
  return svg.str();
}

}  // namespace ladder
