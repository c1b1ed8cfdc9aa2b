#include <algorithm>
#include <array>
#include <ctime>

#include "common/train/report/report.h"
#include "lessons/19_planning/report.h"
#include "lessons/19_planning/search.h"

namespace ladder {
namespace {

constexpr std::array kCards = {"rtx3060", "rtx3090", "a6000", "v100", "a100-40", "a100-80"};
constexpr std::array<size_t, 3> kCounts = {1, 2, 8};
// Some models have positions for far longer texts than one trains on.
constexpr size_t kMostTokens = 4096;  // of a sequence

// Returns the dense presets of the model's family, with sequences that are not too long.
std::vector<ModelPreset> presets_like(const ModelConfig& model) {
  std::vector<ModelPreset> found;
  for (ModelPreset preset : presets()) {
    const bool is_dense = preset.config.experts.num_experts == 0;
    if (!is_dense || preset.config.is_gpt2() != model.is_gpt2()) continue;
    preset.config.sequence_length = std::min(preset.config.sequence_length, kMostTokens);
    found.push_back(preset);
  }
  return found;
}

PlanRequest request_for(const ModelPreset& preset, const std::string& card, size_t count) {
  PlanRequest request{.model_flags = {"--model", std::string(preset.name), "--sequence-length",
                                      concat(preset.config.sequence_length)},
                      .cluster_name = count > 1 ? concat(card, "x", count) : card,
                      .cluster = {},
                      .num_ranks = count,
                      .lessons = kPlannedLessons};
  std::erase(request.lessons, "06_offload");
  request.cluster = read_cluster(request.cluster_name);
  request.dtype = default_dtype(request.cluster);
  request.global_batch_size = default_batch(count, preset.config);
  return request;
}

// Does any layout fit?
bool fits(const PlanRequest& request, const ModelConfig& model) {
  return std::ranges::any_of(all_candidates(request, model), [&](const Candidate& one) {
    const bool is_frugal = one.recompute == "block" && one.micro_batch_size == 1;
    try {
      return is_frugal && memory_need(one, request).fits;
    } catch (const UserError&) {
      return false;  // the lesson cannot divide the model so
    }
  });
}

std::string card_text(const std::vector<ModelPreset>& models, const std::string& card, size_t count,
                      double seconds) {
  const std::string name = format("  %-10s %5zu  ", card.c_str(), count);
  for (size_t i = models.size(); i-- > 0;) {
    const ModelPreset& preset = models[i];
    const PlanRequest request = request_for(preset, card, count);
    if (!fits(request, preset.config)) continue;
    const SearchResult found = search_plans(request, preset.config, 1, seconds);
    if (found.plans.empty()) return name + "no plan in so few seconds\n";
    const Plan& best = found.plans.front();
    const double tokens = tokens_per_step(request, preset.config);
    return name + format("%-14s %5s  %-18s %-9s %5zu %9s %6s\n", std::string(preset.name).c_str(),
                         compute_dtype(best.candidate, request).c_str(),
                         best.candidate.lesson.c_str(), best.candidate.recompute.c_str(),
                         best.candidate.micro_batch_size,
                         with_commas(static_cast<uint64_t>(tokens / best.seconds)).c_str(),
                         gib(best.need.device.total()).c_str());
  }
  return name + "nothing fits\n";
}

}  // namespace

std::string cards_text(const ModelConfig& model, double seconds) {
  std::string text = format(
      "\n  By card: the largest preset of this family that fits without the host's memory, with\n"
      "  sequences of at most %zu tokens.\n"
      "  %-10s %5s  %-14s %5s  %-18s %-9s %5s %9s %6s\n",
      kMostTokens, "card", "GPUs", "model", "dtype", "lesson", "recompute", "micro", "tokens/s",
      "GiB");
  const std::vector<ModelPreset> models = presets_like(model);
  const std::clock_t begin = std::clock();
  size_t left = kCards.size() * kCounts.size();  // rows
  for (const char* const card : kCards) {
    for (const size_t count : kCounts) {
      const double spent = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      // Most rows need less than an equal part of the seconds, and some more.
      const double most = 2 * (seconds - spent) / static_cast<double>(left--);
      text += card_text(models, card, count, std::max(0.0, most));
    }
  }
  return text;
}

}  // namespace ladder
