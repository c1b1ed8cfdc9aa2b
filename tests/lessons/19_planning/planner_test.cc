// The planner's estimates against whole simulations, and its choice against trying everything.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "common/cluster/comm_time.h"
#include "common/train/run/virtual_run.h"
#include "lessons/19_planning/budget.h"
#include "lessons/19_planning/report.h"
#include "tests/catch.h"
#include "tests/sample.h"

namespace ladder {
namespace {

PlanRequest request_for(const std::string& model, const std::string& cluster, size_t batch,
                        const std::string& program = "") {
  PlanRequest request{.model_flags = {"--model", model},
                      .cluster_name = cluster,
                      .cluster = read_cluster(cluster, program),
                      .global_batch_size = batch};
  request.dtype = default_dtype(request.cluster);
  request.num_ranks = request.cluster.num_devices();
  return request;
}

ModelConfig model_of(const PlanRequest& request) {
  return prepare(Candidate(), request).config.model;
}

// The step's time with all micro-batches simulated.
double whole_seconds(const Candidate& candidate, const PlanRequest& request) {
  const Prepared prepared = prepare(candidate, request);
  return VirtualRun(prepared.program, prepared.config, request.cluster, candidate.num_ranks())
      .run()
      .seconds;
}

TEST_CASE("A step with many micro-batches takes what two runs with few of them tell") {
  const PlanRequest request = request_for("gpt2", "h100x8", 128);
  const auto one = GENERATE(
      Candidate{.lesson = "02_ddp", .data = 8}, Candidate{.lesson = "04_zero2", .data = 8},
      Candidate{.lesson = "05_zero3", .data = 8},
      Candidate{.lesson = "09_3d_parallel", .data = 2, .pipeline = 4, .zero_stage = 1},
      Candidate{.lesson = "09_3d_parallel", .data = 2, .pipeline = 2, .tensor = 2},
      Candidate{.lesson = "09_3d_parallel", .data = 1, .pipeline = 8, .recompute = "block"});
  CAPTURE(full_text(one));
  // Stages that differ, as 12 blocks on 8 of them do, come to their final rhythm only after some
  // micro-batches: 2.4 % here, and less than 1 % for the others.
  CHECK(simulate_step(one, request, request.cluster).seconds ==
        Approx(whole_seconds(one, request)).epsilon(one.pipeline == 8 ? 0.03 : 0.015));
}

TEST_CASE("Replicas that share an update take this rank's share of it, and the rest of the step") {
  const PlanRequest request = request_for("gpt2", "h100x8", 128);
  for (const size_t sharers : {2, 4, 8}) {
    for (const size_t shard_size : {size_t{0}, sharers}) {
      CAPTURE(sharers, shard_size);
      const size_t data = shard_size == 0 ? sharers : 8;
      const auto replica = [&](int stage, size_t size) {
        const Candidate one = {
            .lesson = "02_ddp", .data = data, .zero_stage = stage, .shard_size = size};
        return simulate_replica(one, request, request.cluster);
      };
      const StepTime whole = replica(0, 0), shared = replica(3, shard_size);
      // AdamW reads and writes moments and parameters, and reads gradients.
      const MemoryUse& use = whole.device;
      const double bytes = 2.0 * static_cast<double>(use[Category::optimizer]) +
                           2.0 * static_cast<double>(use[Category::parameters]) +
                           static_cast<double>(use[Category::gradients]);
      const double update =
          bytes / (request.cluster.memory_bandwidth * request.cluster.memory_efficiency);
      CHECK(whole.seconds - shared.seconds ==
            Approx(update * (1 - 1 / static_cast<double>(sharers))));
    }
  }
}

TEST_CASE("Days are those of all steps, and device-years those of all devices") {
  PlanRequest request = request_for("tiny", "h100x4", 16);
  const ModelConfig model = model_of(request);
  testing::for_random_cases(50, [&](size_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> exponent(0, 3);
    const auto drawn = [&] { return std::pow(10.0, exponent(random)); };
    Plan plan;
    plan.seconds = drawn();
    request.num_ranks = static_cast<size_t>(drawn());
    const double tokens = 1e6 * drawn();
    const std::string text = tokens_text(plan, request, model, tokens);
    CAPTURE(text);
    double printed = 0, steps = 0, days = 0, years = 0;
    REQUIRE(std::sscanf(text.c_str(), "\n%lf tokens: %lf steps, %lf days, %lf device-years",
                        &printed, &steps, &days, &years) == 4);
    const double a_step = 16.0 * static_cast<double>(model.sequence_length);
    CHECK(std::abs(printed / tokens - 1) <= 1e-3);
    CHECK((steps - 1) * a_step < tokens);
    CHECK(steps * a_step >= tokens);
    // Rounded to one place, and to two.
    const double hours = steps * plan.seconds / 3600;
    CHECK(std::abs(days - hours / 24) <= 0.0501);
    CHECK(std::abs(years - hours * static_cast<double>(request.num_ranks) / 8766) <= 0.00501);
  });
}

TEST_CASE("The columns of the table are the plans' numbers, in their units") {
  const PlanRequest request = request_for("tiny", "h100x4", 16);
  const ModelConfig model = model_of(request);
  testing::for_random_cases(10, [&](size_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> part(0, 1);
    Plan plan;
    plan.candidate = {.lesson = "02_ddp", .data = 2 + random() % 6};
    plan.seconds = 0.01 + 10 * part(random);
    plan.model_utilization = part(random);
    plan.communication = part(random);
    plan.bubble = part(random);
    plan.again = part(random);
    plan.need.device[Category::gradients] = random() % (64UL << 30);
    std::istringstream text(plans_text({.plans = {plan}, .families = {}}, request, model, 1));
    std::string line, word;
    while (std::getline(text, line) && !line.starts_with("  1  ")) continue;
    CAPTURE(seed, line);
    std::erase(line, ',');
    std::istringstream row(line);
    std::vector<std::string> words;
    while (row >> word) words.push_back(word);
    REQUIRE(words.size() == 13);
    const auto number = [&](size_t column) { return std::stod(words[column]); };
    const double tokens = 16.0 * static_cast<double>(model.sequence_length);
    CHECK(number(4) == 1);
    CHECK(std::abs(number(6) - 1e3 * plan.seconds) <= 0.0501);
    CHECK(std::abs(number(7) - tokens / plan.seconds) <= 1.001);
    const double gibs = static_cast<double>(plan.need.device.total()) / 0x1p30;
    const double expected[] = {100 * plan.model_utilization, gibs, 100 * plan.communication,
                               100 * plan.bubble, 100 * plan.again};
    for (size_t i = 0; i < 5; ++i) CHECK(std::abs(number(8 + i) - expected[i]) <= 0.0501);
  });
}

TEST_CASE("Bounds are below the simulated time of every candidate") {
  const auto [model, cluster, batch, program] =
      GENERATE(table<std::string, std::string, size_t, std::string>(
          {{"tiny", "h100x4", 16, ""},
           {"gpt2", "rtx3090x2", 8, ""},
           {"tiny", "a100-80x2x2", 8, ""},
           {"tiny", "a100-80x2x2", 8, "megatron-2022"},
           {"tiny", "v100x4", 8, ""}}));  // in fp16
  const PlanRequest request = request_for(model, cluster, batch, program);
  const ModelConfig config = model_of(request);
  size_t num_checked = 0;
  for (const Candidate& one : all_candidates(request, config)) {
    if (one.micro_batch_size > 2 || one.lesson == "06_offload") continue;
    CAPTURE(cluster, full_text(one));
    const double whole = simulate_step(one, request, request.cluster).seconds;
    CHECK(products_bound(one, request, describe(config)) <= whole);
    CHECK(block_bound(one, request, config) <= whole);
    CHECK(simulate_replica(one, request, request.cluster).seconds <= whole / 0.99);
    ++num_checked;
  }
  CHECK(num_checked > 20);
}

TEST_CASE("The first plan is the fastest of all layouts that fit") {
  const auto [model, cluster, batch] =
      GENERATE(table<std::string, std::string, size_t>({{"tiny", "h100x4", 8},
                                                        {"gpt2", "rtx3090x2@eth-10g", 16},
                                                        {"gpt2", "rtx3060x1x2", 4},
                                                        {"gpt2", "v100x2", 8}}));
  const PlanRequest request = request_for(model, cluster, batch);
  const ModelConfig config = model_of(request);
  double fastest = 1e30;
  for (const Candidate& one : all_candidates(request, config)) {
    if (!memory_need(one, request).fits) continue;
    fastest = std::min(fastest, simulate_step(one, request, request.cluster).seconds);
  }
  const SearchResult result = search_plans(request, config, 3, 1e6);
  REQUIRE(result.plans.size() >= 3);
  CHECK(result.num_unknown == 0);
  CHECK(result.plans.front().seconds == fastest);
  for (const Plan& plan : result.plans) {
    CHECK(plan.need.device.total() <= request.cluster.device_memory);
  }
}

TEST_CASE("Without time to simulate a step the answer is a layout that fits, with a bound") {
  const PlanRequest request = request_for("70b", "h100x8x8", 128);
  const ModelConfig model = model_of(request);
  const SearchResult result = search_plans(request, model, 1, 0);
  REQUIRE(result.plans.size() == 1);
  const Plan& plan = result.plans.front();
  CHECK((plan.is_bound && plan.need.fits));
  CHECK(memory_need(plan.candidate, request).device.total() == plan.need.device.total());
  CHECK(plan.seconds == products_bound(plan.candidate, request, describe(model)));
  CHECK(result.num_unknown == result.num_candidates - 1);
  CHECK_THAT(plans_text(result, request, model, 5),
             ContainsSubstring("\n  1  ") && ContainsSubstring("  0 of ") &&
                 ContainsSubstring("No step was simulated") && !ContainsSubstring("nan"));
  CHECK_THAT(reasons_text(result, request), !ContainsSubstring("the fastest"));
  const Offer offer = offer_of({request, result}, model);
  CHECK((offer.fits && offer.is_bound));
  CHECK_THAT(offers_text({offer}, {.tokens = 1}), ContainsSubstring("at least: not simulated"));
}

TEST_CASE("Seconds of a search are those of a clock on the wall") {
  PlanRequest request = request_for("tiny", "h100x8", 8);
  request.watch = [] { std::this_thread::sleep_for(std::chrono::milliseconds(60)); };
  const SearchResult result = search_plans(request, model_of(request), 1, 0.05);
  CHECK(result.plans.front().is_bound);  // though no processor has worked for so long
}

TEST_CASE("A search says how far it is") {
  PlanRequest request = request_for("tiny", "h100x8", 8);
  std::string told;
  request.told = [&](const std::string& text) { told += text; };
  request.watch = [first = true]() mutable {
    if (std::exchange(first, false)) std::this_thread::sleep_for(std::chrono::seconds(5));
  };
  search_plans(request, model_of(request), 1, 1e6);
  CHECK_THAT(told, StartsWith("  5 of 1e+06 s: 0 of ") && EndsWith(" on 8 ranks simulated\n"));
  CHECK(std::ranges::count(told, '\n') >= 1);
}

TEST_CASE("A plan leaves memory for driver, cuBLAS and NCCL, and more for more groups") {
  constexpr size_t kMiB = size_t{1} << 20;
  PlanRequest request = request_for("gpt2", "h100x8", 16);
  const auto kept = [&](const Candidate& one) { return memory_need(one, request).for_libraries; };
  const Candidate ddp{.lesson = "02_ddp", .data = 8},
      grid{.lesson = "09_3d_parallel", .data = 2, .pipeline = 2, .tensor = 2};
  CHECK(kept({}) == (512 + 256) * kMiB);
  CHECK(kept(ddp) == (512 + 256 + 482 + 360) * kMiB);
  CHECK(kept(grid) >= kept(ddp) + 3 * 360 * kMiB);
  CHECK_THAT(request_text(request, model_of(request)),
             ContainsSubstring("0.8 GiB of one GPU, 1.6 or more of several") &&
                 ContainsSubstring("--keep-free\n"));
  // What just fits without them does not fit.
  const MemoryNeed need = memory_need(ddp, request);
  request.cluster.device_memory = need.device.total() + need.for_libraries;
  CHECK(memory_need(ddp, request).fits);
  --request.cluster.device_memory;
  CHECK_FALSE(memory_need(ddp, request).fits);
  request.keep_free = 0;
  CHECK(memory_need(ddp, request).fits);
  request.keep_free = need.for_libraries + 1;
  CHECK_FALSE(memory_need(ddp, request).fits);
  CHECK(memory_for_libraries(request_for("gpt2", "laptop", 16), 3) == 0);
}

TEST_CASE("A plan is for the program that it names") {
  const PlanRequest own = request_for("gpt2", "a100-80x4", 16),
                    megatron = request_for("gpt2", "a100-80x4", 16, "megatron-2022");
  const ModelConfig config = model_of(own);
  CHECK_THAT(request_text(megatron, config), ContainsSubstring("(a100-80x4), as megatron-2022\n"));
  const Candidate one{.lesson = "02_ddp", .data = 4};
  CHECK(simulate_step(one, megatron, megatron.cluster).seconds >
        1.5 * simulate_step(one, own, own.cluster).seconds);
}

TEST_CASE("What time was too short for is not said to be known") {
  const PlanRequest request = request_for("gpt2", "a100-80x8", 64);
  const SearchResult result{.plans = {{.candidate = {}, .seconds = 1, .need = {}}},
                            .families = {{.name = "03_zero1", .frugal = {}, .bound = 2}},
                            .num_unknown = 2};
  CHECK_THAT(reasons_text(result, request), ContainsSubstring("at least 2000.0 ms"));
  CHECK_THAT(plans_text(result, request, model_of(request), 0),
             ContainsSubstring("time ran out, and 2 others may be faster: give more --seconds"));
}

// Forward of a block is a third of its products, and of a large model nearly all of them.
TEST_CASE("What is computed again is a part of all products") {
  const PlanRequest request = request_for("70b", "h100", 2);
  CHECK(recomputed_part({.recompute = "none"}, request) == 0);
  const double mlp = recomputed_part({.recompute = "mlp"}, request);
  const double block = recomputed_part({.recompute = "block"}, request);
  CHECK(mlp > 0.05);
  CHECK(block > 1.5 * mlp);
  CHECK(block < 0.25);
}

TEST_CASE("Candidates keep tensor groups in a node, and divide ranks and sequences") {
  const PlanRequest request = request_for("gpt2", "h100x4x2", 12);
  size_t num_grids = 0;
  for (const Candidate& one : all_candidates(request, model_of(request))) {
    CHECK(one.num_ranks() == 8);
    CHECK(one.tensor <= 4);
    CHECK(12 % (one.data * one.micro_batch_size) == 0);
    num_grids += one.lesson == "09_3d_parallel";
  }
  CHECK(num_grids > 50);
}

TEST_CASE("A copy of the model has whole machines, and such plans are simulated like others") {
  const PlanRequest request = request_for("gpt2", "h100x8x4@efa-8x400g", 128);
  std::set<size_t> sizes;
  for (const Candidate& one : all_candidates(request, model_of(request))) {
    CHECK((one.shard_size > 0) == (one.lesson == "21_hybrid_shard"));
    if (one.shard_size > 0) sizes.insert(one.shard_size);
  }
  CHECK(sizes == std::set<size_t>{8, 16});
  const PlanRequest one_machine = request_for("gpt2", "h100x8", 128);
  for (const Candidate& one : all_candidates(one_machine, model_of(one_machine))) {
    CHECK(one.shard_size == 0);
  }
  const Candidate hybrid = {.lesson = "21_hybrid_shard",
                            .data = 32,
                            .zero_stage = 3,
                            .shard_size = 8,
                            .micro_batch_size = 1};
  CHECK(simulate_step(hybrid, request, request.cluster).seconds ==
        Approx(whole_seconds(hybrid, request)).epsilon(0.015));
  CHECK_THAT(real_command(hybrid, request), ContainsSubstring("--shard-size 8"));
}

TEST_CASE("A request can name the lessons and the modes of recomputation that plans may use") {
  PlanRequest request = request_for("gpt2", "h100x8", 16);
  request.lessons = {"03_zero1", "09_3d_parallel"};
  request.recompute_modes = {"none", "mlp"};
  std::set<std::string> lessons, modes;
  for (const Candidate& one : all_candidates(request, model_of(request))) {
    lessons.insert(one.lesson);
    modes.insert(one.recompute);
  }
  CHECK(lessons == std::set<std::string>{"03_zero1", "09_3d_parallel"});
  CHECK(modes == std::set<std::string>{"none", "mlp"});
}

TEST_CASE("A request can name the numbers of pipeline stages and the sizes of tensor groups") {
  using Sizes = std::set<std::pair<size_t, size_t>>;
  PlanRequest request = request_for("gpt2", "h100x8", 16);
  const auto sizes = [&] {
    Sizes found;
    for (const Candidate& one : all_candidates(request, model_of(request))) {
      found.insert({one.pipeline, one.tensor});
    }
    return found;
  };
  request.pipeline_sizes = {2, 4, 5};  // 5 does not divide 8
  request.tensor_sizes = {1, 2};
  CHECK(sizes() == Sizes{{2, 1}, {2, 2}, {4, 1}, {4, 2}});
  request.pipeline_sizes = {1};
  CHECK(sizes() == Sizes{{1, 1}, {1, 2}});
  request.tensor_sizes = {3};
  CHECK(sizes().empty());
}

TEST_CASE("A request can name the stages of ZeRO, and axes that do not overlap") {
  PlanRequest request = request_for("gpt2", "rtx3090x4", 4);
  request.zero_stages = {1};
  request.recompute_modes = {"none"};
  request.no_overlap = {"data"};
  const ModelConfig config = model_of(request);
  bool has_data_alone = false;
  for (const Candidate& one : all_candidates(request, config)) {
    CHECK((one.lesson == "09_3d_parallel" && one.zero_stage == 1));
    has_data_alone |= one.data == 4;
  }
  CHECK(has_data_alone);
  // With one micro-batch, the sums over PCIe take about as long as backward.
  const Candidate one{.lesson = "09_3d_parallel", .data = 4, .zero_stage = 1};
  const double apart = whole_seconds(one, request);
  CHECK(simulate_step(one, request, request.cluster).seconds == apart);
  const Plan best = search_plans(request, config, 1, 1e6).plans.front();
  CHECK(best.seconds == whole_seconds(best.candidate, request));
  request.no_overlap = {};
  CHECK(whole_seconds(one, request) < 0.9 * apart);
}

TEST_CASE("fp16 is planned with lesson 10, and the other lessons in fp32 beside it") {
  const PlanRequest request = request_for("gpt2", "v100x2", 8);
  CHECK(request.dtype == "fp16");
  CHECK(compute_dtype({.lesson = "10_mixed_precision", .data = 2}, request) == "fp16");
  CHECK(compute_dtype({.lesson = "05_zero3", .data = 2}, request) == "fp32");
  const SearchResult result = search_plans(request, model_of(request), 1, 1e6);
  CHECK(result.plans.front().candidate.lesson == "10_mixed_precision");
}

TEST_CASE("Memory of the fullest stage decides, and a step without communication is faster") {
  PlanRequest request = request_for("gpt2", "h100x4", 4);
  // With large micro-batches it is the last one, which has the logits, else the first.
  const size_t micro_batch_size = GENERATE(1, 4);
  const Candidate one{
      .lesson = "09_3d_parallel", .data = 1, .pipeline = 4, .micro_batch_size = micro_batch_size};
  const MemoryNeed need = memory_need(one, request);
  CHECK(need.device.total() == simulate_step(one, request, request.cluster).device.total());
  request.keep_free = 0;
  request.cluster.device_memory = need.device.total();
  CHECK(memory_need(one, request).fits);
  --request.cluster.device_memory;
  CHECK_FALSE(memory_need(one, request).fits);
  CHECK(simulate_step(one, request, without_communication(request.cluster)).seconds <
        simulate_step(one, request, request.cluster).seconds);
}

}  // namespace
}  // namespace ladder
