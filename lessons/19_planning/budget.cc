#include "lessons/19_planning/budget.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "common/train/report/report.h"

namespace ladder {
namespace {

// Rounded up: as limits they are enough.
std::string enough_days(double days) { return format("%.2f days", std::ceil(100 * days) / 100); }
std::string enough_hours(double hours) {
  return format("%.1f GPU-hours", std::ceil(10 * hours) / 10);
}

std::string limits_text(const Limits& limits) {
  std::string text = format("%.4g tokens", limits.tokens);
  if (std::isfinite(limits.days)) text += format(" in at most %g days", limits.days);
  if (std::isfinite(limits.device_hours)) {
    text += format(" for at most %g GPU-hours", limits.device_hours);
  }
  return text;
}

// Returns the number from 1e-9 to 1e18 that the text is, or nothing.
template <class Number>
std::optional<Number> positive(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const double real = static_cast<double>(number);
  const bool is_good = error == std::errc() && stop == end && real >= 1e-9 && real <= 1e18;
  return is_good ? std::optional(number) : std::nullopt;
}

}  // namespace

std::vector<Searched> search_halves(const PlanRequest& request, const ModelConfig& model,
                                    size_t num_wanted, double seconds) {
  std::vector<size_t> counts = {request.num_ranks};
  while (counts.back() % 2 == 0) counts.push_back(counts.back() / 2);
  std::vector<Searched> all;
  for (const size_t count : counts) {
    PlanRequest part = request;
    part.num_ranks = count;
    const double share = seconds / static_cast<double>(counts.size());
    all.push_back({part, search_plans(part, model, num_wanted, share)});
  }
  return all;
}

Offer offer_of(const Searched& searched, const ModelConfig& model) {
  const auto& [request, result] = searched;
  Offer offer{.name = counted(request.num_ranks, "GPU"), .num_devices = request.num_ranks};
  offer.fits = !result.plans.empty();
  if (!offer.fits) return offer;
  const Plan& best = result.plans.front();
  offer.is_bound = best.is_bound;
  offer.name += concat(", ", full_text(best.candidate));
  offer.step_seconds = best.seconds;
  offer.tokens_per_step = tokens_per_step(request, model);
  return offer;
}

Offer measured_offer(const std::string& text) {
  const size_t first = text.find(':'), second = text.find(':', first + 1);
  const std::string_view view = text;
  const auto devices = positive<uint64_t>(view.substr(0, first));
  if (first != text.npos && devices) {
    Offer offer{.name = counted(*devices, "GPU"), .num_devices = *devices};
    if (view.substr(first + 1) == "oom") {
      offer.fits = false;
      return offer;
    }
    const auto seconds = positive<double>(view.substr(first + 1, second - first - 1));
    const auto tokens =
        second == text.npos ? std::nullopt : positive<double>(view.substr(second + 1));
    if (seconds && tokens) {
      offer.step_seconds = *seconds;
      offer.tokens_per_step = *tokens;
      return offer;
    }
  }
  throw UserError(concat("--measured ", text,
                         ": expected DEVICES:SECONDS:TOKENS of a step, such as 8:1.5:524288, or "
                         "DEVICES:oom"));
}

std::string offers_text(const std::vector<Offer>& offers, const Limits& limits) {
  std::string text = format("\n%s:\n\n%8s %11s %11s %9s %12s\n", limits_text(limits).c_str(),
                            "GPUs", "step ms", "steps", "days", "GPU-hours");
  for (const Offer& offer : offers) {
    text += format("%8zu ", offer.num_devices);
    if (!offer.fits) {
      text += "      does not fit\n";
      continue;
    }
    const Price price = price_of(offer, limits.tokens);
    text += format("%11.1f %11.0f %9.2f %12.1f", 1e3 * offer.step_seconds, price.steps, price.days,
                   price.device_hours);
    if (offer.is_bound) text += "  at least: not simulated in so few --seconds";
    if (price.days > limits.days) text += "  too late";
    if (price.device_hours > limits.device_hours) text += "  too expensive";
    text += "\n";
  }
  return text;
}

std::string choice_text(const std::vector<Offer>& offers, const Choice& choice,
                        const Limits& limits) {
  std::string text;
  for (const size_t index : choice.best) {
    const Price price = price_of(offers[index], limits.tokens);
    text += format("%s %s: %.2f days, %.1f GPU-hours\n",
                   text.empty() ? "\nchoice:  " : "as cheap:", offers[index].name.c_str(),
                   price.days, price.device_hours);
  }
  return text;
}

std::string no_choice_text(const std::vector<Offer>& offers, const Choice& choice,
                           const Limits& limits) {
  const auto price = [&](size_t index) { return price_of(offers[index], limits.tokens); };
  const auto name = [&](size_t index) { return offers[index].name; };
  if (std::ranges::none_of(offers, &Offer::fits)) {
    return "nothing fits; take more GPUs, or GPUs with more memory";
  }
  std::string text = concat("nothing trains on ", limits_text(limits));
  if (choice.in_time && std::isfinite(limits.device_hours)) {
    text += concat("; ", enough_hours(price(*choice.in_time).device_hours), " would do (",
                   name(*choice.in_time), ")");
  }
  if (choice.in_budget && std::isfinite(limits.days)) {
    text += concat("; ", enough_days(price(*choice.in_budget).days), " would do (",
                   name(*choice.in_budget), ")");
  }
  if (choice.in_time || choice.in_budget) return text;
  const size_t fastest = *choose(offers, {.tokens = limits.tokens, .days = 0}).in_budget;
  const size_t cheapest = choose(offers, {.tokens = limits.tokens}).best.front();
  return concat(text, "; the fastest takes ", enough_days(price(fastest).days), " (", name(fastest),
                "), the cheapest ", enough_hours(price(cheapest).device_hours), " (",
                name(cheapest), ")");
}

}  // namespace ladder
