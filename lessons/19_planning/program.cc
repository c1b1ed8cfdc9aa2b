#include "lessons/19_planning/program.h"

#include <algorithm>
#include <cmath>

#include "common/grid/process_grid.h"
#include "common/io/standard_streams.h"
#include "common/model/family.h"
#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"
#include "common/train/flags/virtual_flags.h"
#include "lessons/19_planning/budget.h"
#include "lessons/19_planning/report.h"

namespace ladder {
namespace {

// Turns the number of a lesson, or its name, into its name. Refuses lessons that cannot be planned.
CLI::Validator planned_lesson() {
  const auto find = [](std::string& text) {
    std::string numbers;
    for (const std::string& lesson : kPlannedLessons) {
      if (text == lesson || text == lesson.substr(0, 2)) {
        text = lesson;
        return std::string();
      }
      numbers += concat(numbers.empty() ? "" : ", ", lesson.substr(0, 2));
    }
    return concat(text, ": expected ", numbers);
  };
  return CLI::Validator(find, "");
}

}  // namespace

void PlanFlags::add_to(FlagTable& flags) {
  flags.add("--model", model, "Preset of the lessons, such as gpt2-xl or 70b [tiny]");
  std::vector<std::string> names = {"--layers", "--heads", "--hidden",
                                    "--ffn",    "--vocab", "--sequence-length"};
  for (const FamilyChoice& choice : family_choices()) names.push_back(choice.flag());
  for (const std::string& name : names) {
    flags.add_function(
        name,
        [this, name](const std::string& value) {
          sizes.insert(sizes.end(), {name, value});
        },
        "Instead of the preset's");
  }
  flags.app().add_flag_callback(
      "--untied", [this] { sizes.push_back("--untied"); },
      "The classifier has a weight of its own, not the token embedding's");
  add_cluster_flags(flags, cluster, program, "");
  flags.add("--ranks", num_ranks, "How many devices to use [all]", whole(1, 1'000'000));
  flags.add("--global-batch-size", global_batch_size,
            "Sequences in an optimizer step [about half a million tokens]", whole(1, 100'000'000));
  flags.add("--dtype", dtype, "fp32, fp64, bf16 or fp16 [bf16 or fp16 if the device has it]",
            CLI::IsMember({"fp32", "fp64", "bf16", "fp16"}));
  const auto list = [&](const char* name, auto& values, const char* help) {
    return flags.add(name, values, help)->delimiter(',');
  };
  list("--lessons", allowed.lessons,
       "Plan with these alone, with commas, such as 02,03,09 [all that can be planned]")
      ->transform(planned_lesson());
  list("--recompute", allowed.recompute_modes,
       "Plan with these modes of recomputation alone [none,cheap,attention,mlp,block]")
      ->check(CLI::IsMember(kRecomputeModes).description(""));
  list("--zero-stages", allowed.zero_stages, "Plan with these stages of ZeRO alone [0,1,2,3]")
      ->check(whole(0, 3));
  list("--pipeline-parallel-sizes", allowed.pipeline_sizes,
       "Plan with so many stages of a pipeline alone, such as 1,2,4 [all that divide]")
      ->check(whole(1, kMostRanks));
  list("--tensor-parallel-sizes", allowed.tensor_sizes,
       "Plan with tensor groups of these sizes alone [all that divide, within a node]")
      ->check(whole(1, kMostRanks));
  list("--no-overlap", allowed.no_overlap,
       "Plan with lesson 09, with axes that communicate while nothing computes: data, "
       "tensor, or both with a comma")
      ->check(CLI::IsMember({"data", "tensor"}).description(""));
  flags.add("--tokens", limits.tokens, "Also print how long training on so many tokens takes",
            real(0, 1e18, true));
  flags.add("--days", limits.days,
            "Choose the number of devices: the cheapest that train in so many days",
            real(0, 1e9, true));
  flags.add("--gpu-hours", limits.device_hours,
            "The same, with at most so many hours of all devices together", real(0, 1e18, true));
  list("--measured", measured,
       "Choose among these: DEVICES:SECONDS:TOKENS of a step, or DEVICES:oom, with commas");
  flags.add("--explain", explain, "Also print what saves memory, and how to choose a layout");
  flags.add("--top", top, "Rows of the table [5]", whole(1, 1000));
  flags.add("--seconds", seconds, "Seconds to search [60]", real(0, 1e6));
  flags.add("--keep-free", keep_free,
            "Bytes of a GPU for driver, cuBLAS and NCCL [0.8 GiB, 1.6 with several, and 0.4 "
            "for each group that splits the ranks]",
            byte_size());
}

namespace {

PlanRequest request_of(const PlanFlags& flags) {
  PlanRequest request = flags.allowed;
  request.model_flags = {"--model", flags.model};
  std::ranges::copy(flags.sizes, std::back_inserter(request.model_flags));
  request.cluster_name = flags.cluster;
  request.cluster = read_cluster(flags.cluster, flags.program);
  request.num_ranks = flags.num_ranks > 0 ? flags.num_ranks : request.cluster.num_devices();
  check_devices(request.cluster, request.num_ranks);
  request.dtype = flags.dtype.empty() ? default_dtype(request.cluster) : flags.dtype;
  check_dtype(request.cluster, dtype_named(request.dtype));
  request.global_batch_size = std::max<size_t>(1, flags.global_batch_size);
  request.keep_free = flags.keep_free;
  request.told = [](const std::string& text) { print(text); };
  return request;
}

bool has_limits(const PlanFlags& flags) {
  return std::isfinite(flags.limits.days) || std::isfinite(flags.limits.device_hours);
}

void check_together(const PlanFlags& flags) {
  const bool is_measured = !flags.measured.empty();
  const bool is_simulated = !flags.cluster.empty() || !flags.program.empty();
  if (is_measured == is_simulated) {
    throw UserError(is_measured ? "--measured: leave out --cluster and --program"
                                : "--cluster is required, such as --cluster h100x8; see --help");
  }
  if (!flags.allowed.no_overlap.empty() && !flags.allowed.lessons.empty() &&
      std::ranges::find(flags.allowed.lessons, "09_3d_parallel") == flags.allowed.lessons.end()) {
    throw UserError(
        "--no-overlap: of the lessons that are planned only 09 has it, and --lessons "
        "leaves it out");
  }
  if (flags.limits.tokens > 0) return;
  if (is_measured || has_limits(flags)) {
    throw UserError(concat(is_measured                        ? "--measured"
                           : std::isfinite(flags.limits.days) ? "--days"
                                                              : "--gpu-hours",
                           ": how long training takes depends on --tokens, which is missing"));
  }
}

// Prints the offers and what is chosen of them. Returns its place.
size_t print_choice(const std::vector<Offer>& offers, const Limits& limits) {
  print(offers_text(offers, limits));
  const Choice choice = choose(offers, limits);
  if (choice.best.empty()) throw Error(no_choice_text(offers, choice, limits));
  print(choice_text(offers, choice, limits));
  return choice.best.front();
}

void print_plans(const Searched& searched, const ModelConfig& model, const PlanFlags& flags) {
  const auto& [request, result] = searched;
  if (result.plans.empty()) throw Error(no_plan_text(result, request));
  const Plan& best = result.plans.front();
  print(plans_text(result, request, model, flags.top));
  print(reasons_text(result, request));
  print(commands_text(best, request));
  if (flags.limits.tokens > 0) print(tokens_text(best, request, model, flags.limits.tokens));
}

}  // namespace

void plan(const PlanFlags& flags) {
  check_together(flags);
  if (!flags.measured.empty()) {
    std::vector<Offer> offers;
    for (const std::string& text : flags.measured) offers.push_back(measured_offer(text));
    print_choice(offers, flags.limits);
    return;
  }
  PlanRequest request = request_of(flags);
  // Lesson 01 on one device says whether the flags describe a model.
  const ModelConfig model = prepare(Candidate(), request).config.model;
  if (flags.global_batch_size == 0) {
    request.global_batch_size = default_batch(request.num_ranks, model);
  }
  print(request_text(request, model));
  if (flags.explain) {
    print(explanation(request, model));
    print(cards_text(model.is_gpt2(), flags.seconds));
  }
  if (!has_limits(flags)) {
    const SearchResult result = search_plans(request, model, flags.top, flags.seconds);
    return print_plans({request, result}, model, flags);
  }
  const std::vector<Searched> all = search_halves(request, model, flags.top, flags.seconds);
  std::vector<Offer> offers;
  for (const Searched& searched : all) offers.push_back(offer_of(searched, model));
  print_plans(all[print_choice(offers, flags.limits)], model, flags);
}

}  // namespace ladder
