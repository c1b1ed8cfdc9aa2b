#include <algorithm>
#include <array>

#include "common/train/report/report.h"
#include "kernels/runtime/real_time.h"
#include "lessons/19_planning/report.h"
#include "lessons/19_planning/search.h"

namespace ladder {
namespace {

constexpr std::array kCards = {"rtx3060", "rtx3090", "a6000", "v100", "a100-40", "a100-80"};
constexpr std::array<size_t, 3> kCounts = {1, 2, 8};
constexpr size_t kMostTokens = 4096;  // of a sequence

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

std::string card_text(bool is_gpt2, const std::string& card, size_t count, double seconds) {
  const std::string name = format("  %-10s %5zu  ", card.c_str(), count);
  PlanRequest request;
  request.cluster_name = count > 1 ? concat(card, "x", count) : card;
  request.cluster = read_cluster(request.cluster_name);
  request.num_ranks = count;
  request.dtype = default_dtype(request.cluster);
  std::ranges::remove_copy(kPlannedLessons, std::back_inserter(request.lessons), "06_offload");
  for (size_t i = presets().size(); i-- > 0;) {
    auto [preset, model, learning_rate, sample_tokens] = presets()[i];
    if (model.is_gpt2() != is_gpt2 || model.experts.num_experts > 0) continue;
    model.sequence_length = std::min(model.sequence_length, kMostTokens);
    request.model_flags = {"--model", std::string(preset), "--sequence-length",
                           concat(model.sequence_length)};
    request.global_batch_size = default_batch(count, model);
    if (!fits(request, model)) continue;
    const SearchResult found = search_plans(request, model, 1, seconds);
    if (found.plans.empty()) continue;
    const Plan& best = found.plans.front();
    const double tokens = tokens_per_step(request, model);
    return name + format("%-14s %5s  %-18s %-9s %5zu %9s %6s\n", request.model_flags[1].c_str(),
                         compute_dtype(best.candidate, request).c_str(),
                         best.candidate.lesson.c_str(), best.candidate.recompute.c_str(),
                         best.candidate.micro_batch_size,
                         concat(best.is_bound ? "<" : "",
                                with_commas(static_cast<uint64_t>(tokens / best.seconds)))
                             .c_str(),
                         gib(best.need.device.total()).c_str());
  }
  return name + "nothing fits\n";
}

}  // namespace

std::string cards_text(bool is_gpt2, double seconds) {
  std::string text = format(
      "\n  By card: the largest preset of this family that fits without the host's memory, with\n"
      "  sequences of at most %zu tokens.\n"
      "  %-10s %5s  %-14s %5s  %-18s %-9s %5s %9s %6s\n",
      kMostTokens, "card", "GPUs", "model", "dtype", "lesson", "recompute", "micro", "tokens/s",
      "GiB");
  const Time begin = real_time();
  double left = kCards.size() * kCounts.size();  // rows
  for (const char* const card : kCards) {
    for (const size_t count : kCounts) {
      // Most rows need less than an equal part of what is left, and some more.
      const double part = (seconds - seconds_between(begin, real_time())) / left--;
      text += card_text(is_gpt2, card, count, 2 * std::max(0.0, part));
    }
  }
  return text;
}

}  // namespace ladder
