#include "common/train/breakdown.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common/train/report.h"

namespace ladder {
namespace {

struct Kind {
  const char* text;
  bool (*has)(std::string_view name, Port port);
};

bool is_on_device(Port port) { return port == Port::compute || port == Port::host; }
bool is_between_ranks(Port port) { return port == Port::inside || port == Port::network; }
bool is_product(std::string_view name) { return name.starts_with("matmul"); }
bool is_attention(std::string_view name) { return name.starts_with("attention"); }

// The first that has an operation counts it.
constexpr std::array<Kind, 5> kKinds = {{
    {"matrix products",
     [](auto name, Port port) { return is_on_device(port) && is_product(name); }},
    {"attention", [](auto name, Port port) { return is_on_device(port) && is_attention(name); }},
    {"other kernels", [](auto, Port port) { return is_on_device(port); }},
    {"copies from and to the host", [](auto, Port port) { return port == Port::copy; }},
    {"communication", [](auto, Port port) { return is_between_ranks(port); }},
}};

std::string line(const char* text, double seconds, double step_seconds) {
  return format("  %-34s %12.3f %8.1f\n", text, 1e3 * seconds, 100 * seconds / step_seconds);
}

}  // namespace

void Breakdown::add(const Span& span) {
  const double begin = begin_[span.rank];
  if (begin < 0 || span.came < begin) return;
  auto sum = std::ranges::find(sums_, span.name, &Sum::name);
  if (sum == sums_.end()) sum = sums_.insert(sum, {span.name, span.port});
  sum->seconds += span.end - span.begin;
  sum->waited += span.begin - span.came;
  ++sum->calls;
}

std::string Breakdown::kinds_text(double step_seconds) const {
  std::string text = format("\n  %-34s %12s %8s\n", "a device's step (mean of ranks)", "ms", "%");
  double computed = 0;
  for (const Kind& kind : kKinds) {
    double seconds = 0;
    bool is_empty = true;
    for (const Sum& sum : sums_) {
      const auto first = std::ranges::find_if(
          kKinds, [&](const Kind& other) { return other.has(sum.name, sum.port); });
      if (first->text != kind.text) continue;
      seconds += mean(sum.seconds);
      is_empty = false;
      if (is_on_device(sum.port)) computed += mean(sum.seconds);
    }
    if (!is_empty) text += line(kind.text, seconds, step_seconds);
  }
  return text + line("nothing computed", std::max(0.0, step_seconds - computed), step_seconds);
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
