#include "common/train/report/breakdown.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "common/train/report/report.h"

namespace ladder {
namespace {

constexpr std::array kKinds = {"matrix products", "attention", "other kernels",
                               "copies from and to the host", "communication"};
constexpr size_t kFirstNotComputed = 3;

// Returns the index among kKinds.
size_t kind_of(std::string_view name, Port port) {
  if (port == Port::inside || port == Port::network) return 4;
  if (port == Port::copy) return 3;
  return name.starts_with("matmul") ? 0 : name.starts_with("attention") ? 1 : 2;
}

std::string line(const char* text, double seconds, double step_seconds) {
  return format("  %-34s %12.3f %8.1f\n", text, 1e3 * seconds, 100 * seconds / step_seconds);
}

// Returns the name of a unit's work with all numbers as one: "h.* forward" for "h.12 forward".
std::string of_all_blocks(std::string_view name) {
  const size_t dot = name.find('.');
  const size_t first = dot == name.npos ? name.npos : name.find_first_of("0123456789", dot);
  if (first != dot + 1) return std::string(name);
  const size_t rest = std::min(name.find_first_not_of("0123456789", first), name.size());
  return concat(name.substr(0, first), "*", name.substr(rest));
}

}  // namespace

void Breakdown::add(const UnitTime& work) {
  const std::string name = of_all_blocks(work.name);
  auto unit = std::ranges::find(units_, name, &std::pair<std::string, double>::first);
  if (unit == units_.end()) unit = units_.insert(unit, {name, 0});
  unit->second += work.busy;
}

void Breakdown::add(const DeviceSpan& span) {
  auto sum = std::ranges::find(sums_, span.name, &Sum::name);
  if (sum == sums_.end()) sum = sums_.insert(sum, {span.name, span.port});
  sum->seconds += span.end - span.begin;
  sum->waited += span.begin - span.came;
  ++sum->calls;
}

std::string Breakdown::kinds_text(double step_seconds) const {
  std::string text = format("\n  %-34s %12s %8s\n", "a device's step (mean of ranks)", "ms", "%");
  std::array<std::optional<double>, kKinds.size()> seconds;
  for (const Sum& sum : sums_) {
    std::optional<double>& of_kind = seconds[kind_of(sum.name, sum.port)];
    of_kind = of_kind.value_or(0) + mean(sum.seconds);
  }
  double computed = 0;
  for (size_t kind = 0; kind < kKinds.size(); ++kind) {
    if (!seconds[kind]) continue;
    text += line(kKinds[kind], *seconds[kind], step_seconds);
    if (kind < kFirstNotComputed) computed += *seconds[kind];
  }
  return text + line("nothing computed", std::max(0.0, step_seconds - computed), step_seconds);
}

std::string Breakdown::units_text(double step_seconds) const {
  std::string text =
      format("\n  %-34s %12s %8s\n", "computed, by unit and pass (mean of ranks)", "ms", "%");
  for (const auto& [name, seconds] : units_)
    text += line(name.c_str(), mean(seconds), step_seconds);
  return text;
}

std::string Breakdown::names_text(double step_seconds) const {
  std::vector<Sum> sums = sums_;
  std::ranges::stable_sort(sums, std::greater(), &Sum::seconds);
  std::string text = format("\n  %-34s %12s %8s %12s %12s\n", "by operation (mean of ranks)", "ms",
                            "%", "waited ms", "calls");
  for (const Sum& sum : sums) {
    const double seconds = mean(sum.seconds);
    text += format("  %-34s %12.3f %8.1f %12.3f %12.1f\n", sum.name, 1e3 * seconds,
                   100 * seconds / step_seconds, 1e3 * mean(sum.waited),
                   mean(static_cast<double>(sum.calls)));
  }
  return text;
}

}  // namespace ladder
