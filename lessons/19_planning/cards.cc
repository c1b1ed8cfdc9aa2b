#include <algorithm>
#include <array>

#include "common/train/report/report.h"
#include "lessons/19_planning/report.h"
#include "lessons/19_planning/search.h"

namespace ladder {
namespace {

constexpr std::array kCards = {"rtx3060", "rtx3090", "a6000", "v100", "a100-40", "a100-80"};
constexpr std::array<size_t, 3> kCounts = {1, 2, 8};

PlanRequest request_for(const ModelPreset& preset, const std::string& card, size_t count) {
  PlanRequest request{.model_flags = {"--model", std::string(preset.name)},
                      .cluster_name = count > 1 ? concat(card, "x", count) : card,
                      .cluster = {},
                      .num_ranks = count};
  request.cluster = read_cluster(request.cluster_name);
  request.dtype = default_dtype(request.cluster);
  request.global_batch_size = default_batch(count, preset.config);
  return request;
}

// Does any layout fit that keeps its state on the devices?
bool fits_on_devices(const PlanRequest& request, const ModelConfig& model) {
  return std::ranges::any_of(all_candidates(request, model), [&](const Candidate& one) {
    const bool is_on_device = one.lesson != "06_offload";
    const bool is_frugal = one.recompute == "block" && one.micro_batch_size == 1;
    try {
      return is_on_device && is_frugal && memory_need(one, request).fits;
    } catch (const UserError&) {
      return false;  // the lesson cannot divide the model so
    }
  });
}

std::string card_text(const std::string& card, size_t count, double seconds) {
  const std::string name = format("  %-10s %5zu  ", card.c_str(), count);
  for (size_t i = presets().size(); i-- > 0;) {
    const ModelPreset& preset = presets()[i];
    if (!preset.config.is_gpt2()) continue;
    const PlanRequest request = request_for(preset, card, count);
    if (!fits_on_devices(request, preset.config)) continue;
    const SearchResult found = search_plans(request, preset.config, 1, seconds);
    if (found.plans.empty()) return name + "no plan in so few seconds\n";
    const Plan& best = found.plans.front();
    const double tokens = tokens_per_step(request, preset.config);
    return name + format("%-12s %5s  %-15s %-9s %5zu %9s %6s\n", std::string(preset.name).c_str(),
                         compute_dtype(best.candidate, request).c_str(),
                         best.candidate.lesson.c_str(), best.candidate.recompute.c_str(),
                         best.candidate.micro_batch_size,
                         with_commas(static_cast<uint64_t>(tokens / best.seconds)).c_str(),
                         gib(best.need.device.total()).c_str());
  }
  return name + "nothing fits\n";
}

}  // namespace

std::string cards_text(double seconds) {
  const double each = std::min(3.0, seconds / (kCards.size() * kCounts.size()));
  std::string text = format(
      "\n  By card: the largest GPT-2 that fits without the host's memory.\n"
      "  %-10s %5s  %-12s %5s  %-15s %-9s %5s %9s %6s\n",
      "card", "GPUs", "model", "dtype", "lesson", "recompute", "micro", "tokens/s", "GiB");
  for (const char* const card : kCards) {
    for (const size_t count : kCounts) text += card_text(card, count, each);
  }
  return text;
}

}  // namespace ladder
