#include "tools/course/pictures/offers.h"

#include <algorithm>

#include "common/io/svg.h"
#include "kernels/runtime/check.h"
#include "lessons/19_planning/choose.h"

namespace ladder {
namespace {

constexpr double kLeft = 70, kTop = 64, kWidth = 560, kHeight = 300, kDot = 12;
constexpr double kDays = 16, kHours = 4500;  // at the ends of the axes

double x_of(double days) { return kLeft + kWidth * days / kDays; }
double y_of(double hours) { return kTop + kHeight * (1 - hours / kHours); }

void draw_axes(Svg& svg) {
  const double bottom = kTop + kHeight;
  svg.line(kLeft, kTop, kLeft, bottom);
  svg.line(kLeft, bottom, kLeft + kWidth, bottom);
  for (double days = 0; days <= kDays; days += 2) {
    svg.line(x_of(days), bottom, x_of(days), bottom + 4);
    svg.text(x_of(days), bottom + 18, concat(days), {.anchor = Svg::Anchor::middle});
  }
  for (double hours = 0; hours <= kHours; hours += 1000) {
    svg.line(kLeft - 4, y_of(hours), kLeft, y_of(hours));
    svg.text(kLeft - 8, y_of(hours) + 4, concat(hours), {.anchor = Svg::Anchor::end});
  }
  svg.text(kLeft + kWidth, bottom + 36, "days", {.anchor = Svg::Anchor::end});
  svg.text(10, kTop - 10, "GPU-hours");
}

}  // namespace

std::string draw_offers() {
  const Limits limits = {.tokens = 1e11, .days = 7, .device_hours = 3500};
  std::vector<Offer> offers;
  for (const auto& [devices, seconds] :
       {std::pair<size_t, double>{8, 12}, {16, 6.3}, {32, 3.5}, {64, 2.2}}) {
    offers.push_back({concat(devices, " GPUs"), devices, seconds, 1e6});
  }
  const Choice choice = choose(offers, limits);
  check(choice.best.size() == 1, "draw_offers: one offer is the best");
  Svg svg(kLeft + kWidth + 30, kTop + kHeight + 50);
  svg.title("100,000 steps within 7 days and 3,500 GPU-hours");
  const double right = x_of(limits.days), top = y_of(limits.device_hours);
  svg.shade(Colour::forward, 0.2, kLeft, top, right - kLeft, kTop + kHeight - top);
  svg.text(kLeft + 8, kTop + kHeight - 10, "in time, and cheap enough");
  draw_axes(svg);
  for (size_t i = 0; i < offers.size(); ++i) {
    const Price price = price_of(offers[i], limits.tokens);
    const double x = x_of(price.days), y = y_of(price.device_hours);
    const bool is_best = i == choice.best.front();
    svg.rect(is_best ? Colour::forward : Colour::workspace, x - kDot / 2, y - kDot / 2, kDot, kDot);
    svg.text(x + kDot, y + 4, offers[i].name, {.bold = is_best});
    if (is_best) svg.text(x + kDot, y + 20, "chosen", {.bold = true});
  }
  return svg.str();
}

}  // namespace ladder
