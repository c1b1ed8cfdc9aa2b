#include <algorithm>
#include <utility>

#include "common/io/svg.h"
#include "common/train/report/report.h"
#include "kernels/runtime/cost.h"
#include "lessons/19_planning/report.h"
#include "tools/course/spine/spine.h"

namespace ladder {
namespace {

constexpr double kMemory = 228, kTokens = 472, kWidth = 180, kTop = 80, kRow = 24, kBar = 16;

bool has(const SpineLine& line, const char* word) {
  return concat(line.command, line.why).find(word) != std::string::npos;
}

}  // namespace

std::string draw_spine(const std::vector<SpineLine>& all) {
  std::vector<SpineLine> lines;
  std::ranges::copy_if(all, std::back_inserter(lines),
                       [](const SpineLine& line) { return !line.command.empty(); });
  const size_t most = std::ranges::max(lines, {}, &SpineLine::memory).memory;
  const double most_tokens = std::ranges::max(lines, {}, &SpineLine::tokens_a_day).tokens_a_day;
  double best = 0;  // of those that train the whole model
  for (const SpineLine& line : lines) {
    if (!has(line, "--train ")) best = std::max(best, line.tokens_a_day);
  }
  const double bottom = kTop + kRow * static_cast<double>(lines.size());
  Svg svg(kTokens + kWidth + 60, bottom + 10);
  svg.title(spine_question());
  svg.text(kMemory, 48, "GiB that a card needs", {.bold = true});
  svg.text(kTokens, 48, "billions of tokens a day", {.bold = true});
  const double limit = kWidth * number_of(spine_card_memory()) / number_of(most);
  double y = kTop;
  bool is_bf16 = false;
  for (const SpineLine& line : lines) {
    const bool is_best = line.tokens_a_day == best;
    const double memory = kWidth * number_of(line.memory) / number_of(most);
    const double tokens = kWidth * line.tokens_a_day / most_tokens;
    std::string name = line.lesson;
    std::ranges::replace(name, '_', ' ');
    // In what the line differs from those above it.
    if (has(line, "bf16") && !std::exchange(is_bf16, true)) name += ": now in bf16";
    if (has(line, "another model")) name += ": other model";
    if (has(line, "--train ")) name += ": adapters only";
    svg.text(10, y + 13, name, {.bold = is_best});
    // In two where the card's memory ends.
    const Colour colour = line.fits ? Colour::optimizer : Colour::communication;
    svg.rect(colour, kMemory, y, std::min(memory, limit), kBar);
    if (memory > limit) svg.rect(colour, kMemory + limit, y, memory - limit, kBar);
    svg.text(kTokens - 16, y + 13, gib(line.memory), {.anchor = Svg::Anchor::end});
    if (line.fits) svg.rect(Colour::parameters, kTokens, y, tokens, kBar);
    svg.text(kTokens + (line.fits ? tokens + 6 : 0), y + 13,
             line.fits ? format("%.2f", 1e-9 * line.tokens_a_day) : "does not fit",
             {.bold = is_best});
    y += kRow;
  }
  svg.text(kMemory + limit, kTop - 10, "it has " + gib(spine_card_memory()),
           {.anchor = Svg::Anchor::middle});
  svg.line(kMemory + limit, kTop - 6, kMemory + limit, bottom - kRow + kBar + 4);
  return svg.str();
}

}  // namespace ladder
