#include "lessons/19_planning/report.h"

#include <algorithm>
#include <cmath>

#include "common/cluster/cluster_text.h"
#include "common/model/description.h"
#include "common/train/report/report.h"
#include "lessons/19_planning/choose.h"

namespace ladder {
namespace {

// Returns the category that takes the most bytes, "optimizer 17.4 GiB".
std::string largest_text(const MemoryUse& use) {
  const auto most = std::ranges::max_element(use.bytes);
  const auto index = static_cast<size_t>(most - use.bytes.begin());
  return concat(name_of(kCategories[index]), " ", gib(*most), " GiB");
}

std::string need_text(const MemoryNeed& need, const Cluster& cluster) {
  if (need.device.total() + need.for_libraries > cluster.device_memory) {
    const bool is_in_reserve = need.device.total() <= cluster.device_memory;
    return concat("needs at least ", gib(need.device.total()), " of ", gib(cluster.device_memory),
                  " GiB (", largest_text(need.device), ")",
                  is_in_reserve ? concat(", and libraries ", gib(need.for_libraries)) : "");
  }
  return concat("needs ", gib(need.host.total()),
                " GiB of the host's memory for each rank, more than it has");
}

// Returns what takes most of a step beside computing.
std::string limit_text(const Plan& plan) {
  const double most = std::max({plan.bubble, plan.again, plan.communication});  // or it is NaN
  if (most < 0.02) return "";
  const char* const what = most == plan.communication ? "communication"
                           : most == plan.bubble      ? "the bubble"
                                                      : "recomputation";
  return format("; %s takes %.0f %%", what, 100 * most);
}

const Plan* fastest_of(const std::string& family, const SearchResult& result) {
  const auto plan = std::ranges::find_if(
      result.plans, [&](const Plan& p) { return family_of(p.candidate) == family; });
  return plan == result.plans.end() ? nullptr : &*plan;
}

// Returns the first family after this one that fits.
std::string remedy_text(const Family& family, const SearchResult& result) {
  bool is_after = false;
  for (const Family& other : result.families) {
    if (is_after && other.need.fits) {
      return concat("; ", other.name, " on ", counted(other.frugal.num_ranks(), "rank"), " fits (",
                    gib(other.need.device.total()), " GiB)");
    }
    is_after = is_after || other.name == family.name;
  }
  return "";
}

std::string bound_text(double seconds) {
  return format("at least %.1f ms (a bound, not simulated)", 1e3 * seconds);
}

std::string reason(const Family& family, const SearchResult& result, const PlanRequest& request) {
  if (const Plan* const plan = fastest_of(family.name, result)) {
    const double factor = plan->seconds / result.plans.front().seconds;
    if (plan->is_bound) return bound_text(plan->seconds);
    if (plan == &result.plans.front()) return "the fastest" + limit_text(*plan);
    return format("%.1f ms, %.2f times the fastest", 1e3 * plan->seconds, factor) +
           limit_text(*plan);
  }
  if (!family.need.fits) {
    if (family.need.device.total() == 0) return "the model or the batch cannot be divided so";
    return concat("does not fit: ", need_text(family.need, request.cluster),
                  remedy_text(family, result));
  }
  if (family.bound) return bound_text(*family.bound);
  return "fits only with settings that are slower";
}

// "?": it is not known.
std::string percent(double part) { return std::isnan(part) ? "?" : format("%.1f", 100 * part); }

}  // namespace

std::string gib(size_t bytes) { return format("%.1f", static_cast<double>(bytes) / (1 << 30)); }

std::string request_text(const PlanRequest& request, const ModelConfig& model) {
  const Cluster& cluster = request.cluster;
  const auto kept = [&](size_t num) { return gib(memory_for_libraries(request, num)); };
  return concat(
      with_commas(describe(model).num_parameters()), " parameters, ",
      counted(request.global_batch_size, "sequence"), " of ", with_commas(model.sequence_length),
      " tokens a step, ", request.dtype, "\n", counted(request.num_ranks, "rank"), " of ",
      cluster.device, " with ", gib(cluster.device_memory), " GiB, ", cluster.devices_per_node,
      " in a node ", name_and_program(cluster), "\n",
      assumptions(cluster, request.num_ranks, dtype_named(request.dtype)),
      cluster.is_cpu ? ""
                     : assumption(concat("free for driver, cuBLAS, NCCL: ", kept(0),
                                         " GiB of one GPU, ", kept(1), " or more of several"),
                                  "--keep-free"));
}

std::string plans_text(const SearchResult& result, const PlanRequest& request,
                       const ModelConfig& model, size_t top) {
  std::string text = format("\n%3s  %-16s %-36s %-9s %5s %5s %10s %12s %5s %6s %6s %6s %6s\n", "",
                            "lesson", "layout", "recompute", "micro", "dtype", "step ms",
                            "tokens/s", "MFU", "GiB", "comm.", "bubble", "again");
  for (size_t i = 0; i < std::min(top, result.plans.size()); ++i) {
    const Plan& plan = result.plans[i];
    const Candidate& one = plan.candidate;
    std::string layout = layout_text(one);
    if (one.zero_stage > 0 && one.lesson == "09_3d_parallel") layout += " ZeRO-1";
    if (one.sequence_parallel) layout += " SP";
    if (one.shard_size > 0) layout += concat(", shards of ", one.shard_size);
    text += format(
        "%3zu  %-16s %-36s %-9s %5zu %5s %10.1f %12s %5.1f %6s %6s %6s %6s\n", i + 1,
        one.lesson.c_str(), layout.c_str(), one.recompute.c_str(), one.micro_batch_size,
        compute_dtype(one, request).c_str(), 1e3 * plan.seconds,
        with_commas(static_cast<uint64_t>(tokens_per_step(request, model) / plan.seconds)).c_str(),
        100 * plan.model_utilization, gib(plan.need.device.total()).c_str(),
        percent(plan.communication).c_str(), percent(plan.bubble).c_str(),
        percent(plan.again).c_str());
  }
  text +=
      "  GiB: of the fullest rank. comm.: % of the step that would be saved if communication took\n"
      "  no time. bubble: % of the step by the formula of 1F1B with equal stages. again: % of the\n"
      "  products that are recomputation. SP: --sequence-parallel. MFU: % of the devices' peak "
      "that\n"
      "  the model's own products use. micro: sequences in a micro-batch.\n";
  const bool is_bound = !result.plans.empty() && result.plans.front().is_bound;
  text += format("  %zu of %zu layouts simulated; ", is_bound ? 0 : result.plans.size(),
                 result.num_candidates);
  return text + (result.num_unknown == 0
                     ? "the others do not fit, or a bound shows that they are slower.\n"
                     : concat("time ran out, and ", result.num_unknown,
                              " others may be faster: give more --seconds.\n",
                              is_bound ? "  No step was simulated: the one above takes at least so "
                                         "long, and fits.\n"
                                       : ""));
}

std::string reasons_text(const SearchResult& result, const PlanRequest& request) {
  std::string text = "\n";
  for (const Family& family : result.families) {
    text += format("  %-42s ", family.name.c_str()) + reason(family, result, request) + "\n";
  }
  return text;
}

std::string commands_text(const Plan& plan, const PlanRequest& request) {
  return concat("\nsimulate: ", simulation_command(plan.candidate, request),
                "\nrun:      ", real_command(plan.candidate, request), "\n");
}

std::string tokens_text(const Plan& plan, const PlanRequest& request, const ModelConfig& model,
                        double tokens) {
  const double step = tokens_per_step(request, model);
  const Price price = price_of({.name = "",
                                .num_devices = request.num_ranks,
                                .step_seconds = plan.seconds,
                                .tokens_per_step = step},
                               tokens);
  return format("\n%.4g tokens: %.0f steps, %.1f days, %.2f device-years\n", tokens, price.steps,
                price.days, price.device_hours / 24 / 365.25);
}

std::string no_plan_text(const SearchResult& result, const PlanRequest& request) {
  const Family* closest = nullptr;
  for (const Family& family : result.families) {
    const size_t total = family.need.device.total();
    if (total == 0) continue;
    if (closest == nullptr || total < closest->need.device.total()) closest = &family;
  }
  if (closest == nullptr) {
    return "no lesson can divide this model and batch among so many ranks; take fewer with "
           "--ranks, or a larger --global-batch-size, or allow more --lessons, --zero-stages, "
           "--pipeline-parallel-sizes or --tensor-parallel-sizes";
  }
  return concat("nothing fits. The smallest is ", full_text(closest->frugal), ", which ",
                need_text(closest->need, request.cluster),
                "; take more ranks, devices with more memory, or a shorter --sequence-length");
}

}  // namespace ladder
