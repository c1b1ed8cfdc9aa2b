#include "tools/course/pictures/overlap.h"

#include <utility>

#include "common/train/report/report.h"
#include "kernels/runtime/check.h"
#include "lessons/02_ddp/trainer.h"
#include "tools/course/pictures/time_lanes.h"

namespace ladder {
namespace {

constexpr double kTop = 44, kVariant = 136, kLane = TimeLanes::kBox + 22;

// The sums of gradients, by the names of their buckets. Others are sums of a few bytes.
std::vector<TimeBox> sums_of(const FirstRank& step, const std::vector<std::string>& names) {
  std::vector<TimeBox> boxes;
  for (const StepSpan& span : step.communicates) {
    if (span.what != "all_reduce" || boxes.size() == names.size()) continue;
    boxes.push_back({span.from, span.to, Colour::communication, names[boxes.size()]});
  }
  check(boxes.size() == names.size(), "draw_overlap: a bucket has no sum");
  return boxes;
}

std::string text_of(double microseconds) { return format("%.1f ms", microseconds / 1000); }

}  // namespace

std::string draw_overlap() {
  const auto simulated = [](const DdpTrainer::Flags& flags) {
    return simulate_first_rank(make_program<DdpTrainer>(flags));
  };
  const FirstRank naive = simulated({.naive = true});
  const FirstRank overlapped = simulated({});
  const Layout layout(overlapped.config.model, kPicturedRanks);
  const std::vector<Bucket> buckets =
      make_buckets(layout, DType::fp32, DdpTrainer::Flags().bucket_bytes);
  std::vector<std::string> names;
  for (const Bucket& bucket : buckets) names.push_back(layout.unit(bucket.last_unit).name);
  const auto megabytes = [](size_t elements) {
    return format("%.0f MB", 4e-6 * number_of(elements));
  };

  Svg svg(720, kTop + 2 * kVariant + 76);
  svg.title("A step of lesson 02 on four simulated GPUs: rank 0");
  TimeLanes lanes(svg, naive.end);
  const auto draw = [&](double top, const std::string& title, const FirstRank& step,
                        const std::vector<std::string>& sums) {
    svg.text(10, top + 14, concat(title, ": ", text_of(step.end)), {.bold = true});
    lanes.lane(top + 40, "computes", step.end, boxes_of(step.computes));
    lanes.lane(top + 40 + kLane, "communicates", step.end, sums_of(step, sums));
  };
  draw(kTop, "one sum after backward (--naive)", naive,
       {concat("all gradients: ", megabytes(layout.num_elements()))});
  const double second = kTop + kVariant;
  draw(second,
       concat("sums of a block each, ", megabytes(buckets[1].num_elements),
              ", while backward goes on"),
       overlapped, names);
  const double saved = lanes.x_of(overlapped.end), width = lanes.x_of(naive.end) - saved;
  const double top = second + 40, height = kLane + TimeLanes::kBox;
  svg.rect(Colour::emphasis, saved, top, width, height);
  svg.label(Colour::emphasis, saved, top, width, height / 2 + 8, "saved:", {.bold = true});
  svg.label(Colour::emphasis, saved, top + height / 2 - 8, width, height / 2 + 8,
            text_of(naive.end - overlapped.end), {.bold = true});
  const double bottom = second + kVariant;
  lanes.axis(bottom);
  lanes.legend(bottom + 44, "waits");
  return svg.str();
}

}  // namespace ladder
