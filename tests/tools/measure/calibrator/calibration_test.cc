#include "tools/measure/calibrator/calibration.h"

#include <algorithm>

#include "common/cluster/comm_time.h"
#include "common/cluster/kernel_time.h"
#include "lessons/19_planning/candidate.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

const std::vector<std::string> kNano = {"--model", "nano", "--global-batch-size", "4"};

Cluster read_back(const Cluster& cluster) {
  const TestFolder folder;
  return read_cluster(folder.write("machine.json", file_text(cluster)));
}

// The same cluster, whose formulas give years.
Cluster without_formulas(Cluster cluster) {
  cluster.memory_bandwidth = cluster.vector_flops = 1e-9;
  cluster.product_flops.fill(1e-9);
  return cluster;
}

TEST_CASE("Each call of each rank of every lesson is timed") {
  const auto [num_ranks, dtype] = GENERATE(
      std::pair<size_t, std::string>{1, "fp32"}, std::pair<size_t, std::string>{2, "fp32"},
      std::pair<size_t, std::string>{2, "fp64"}, std::pair<size_t, std::string>{2, "bf16"});
  for (const auto& [lesson, make] : lesson_programs()) {
    if (lesson == "01_single_gpu" && num_ranks > 1) continue;
    if (lesson == "06_offload" && dtype == "bf16") continue;  // it updates on the host
    std::vector<std::string> flags = kNano;
    flags.insert(flags.end(), {"--dtype", dtype});
    if (lesson == "09_3d_parallel" && num_ranks == 2) {
      flags.insert(flags.end(), {"--tensor-parallel-size", "2"});
    }
    StepCalls calls;
    add_calls({lesson, flags}, num_ranks, calls);
    const size_t num_calls = calls.size();
    CHECK(num_calls > 20);
    for (size_t rank = 0; rank < num_ranks; ++rank) {
      time_calls({lesson, flags}, rank, num_ranks, calls, 0);
    }
    CHECK(calls.size() == num_calls);
    for (const auto& [key, one] : calls) {
      CAPTURE(lesson, num_ranks, one.call.name, name_of(one.call.dtype), one.call.cost.bytes());
      CHECK(one.count > 0);
      CHECK(one.seconds.size() == 3 * one.count);  // in three steps
      // No machine computes so fast: the kernels do run.
      CHECK(std::ranges::min(one.seconds) > one.call.cost.product_flops / 2e12);
    }
  }
}

TEST_CASE("The file of a calibrated machine is read back, with a point for every kernel") {
  Job job;
  job.join();
  job.connect({});
  const LessonRun run = {"01_single_gpu", kNano};
  const Cluster measured = calibrate({.runs = {run}, .busy_ranks = {1}}, job);
  const Cluster cluster = read_back(measured);
  CHECK(cluster.is_cpu);
  CHECK(cluster.devices_per_node >= 2);
  CHECK(cluster.memory_bandwidth == measured.memory_bandwidth);
  CHECK(cluster.product_flops == measured.product_flops);
  CHECK(cluster.call_seconds == measured.call_seconds);
  CHECK(cluster.node_link.bandwidth == measured.node_link.bandwidth);
  const Cluster points = without_formulas(cluster);
  StepCalls calls;
  add_calls(run, 1, calls);
  for (const auto& [key, one] : calls) {
    CAPTURE(one.call.name, one.call.cost.bytes());
    CHECK(kernel_seconds(points, one.call, 1) < 1);
  }
}

TEST_CASE("Points of two busy ranks and of collectives keep their numbers") {
  Cluster cluster = read_cluster("laptop");
  const Cost product = {.product_flops = 2 * 8 * 9 * 10, .m = 8, .n = 9, .k = 10};
  const Cost attention = {.product_flops = 1000, .bytes_read = 10, .bytes_written = 10};
  const Cost gelu = {.bytes_read = 64, .bytes_written = 64};
  const KernelCall calls[] = {{"matmul", DType::bf16, product},
                              {"attention_forward", DType::fp32, attention},
                              {"gelu_forward", DType::fp32, gelu}};
  double seconds = 0.001;
  for (const KernelCall& call : calls) {
    cluster.kernels.push_back(
        {call.name, {point_of(call, 1, seconds), point_of(call, 2, 10 * seconds)}});
    seconds *= 2;
  }
  cluster.collectives = {{Collective::all_gather, 2, 1024, 0.5}};
  const Cluster read = read_back(cluster);
  seconds = 0.001;
  for (const KernelCall& call : calls) {
    CAPTURE(call.name);
    CHECK(kernel_seconds(read, call, 1) == Approx(seconds));
    CHECK(kernel_seconds(read, call, 2) == Approx(10 * seconds));
    seconds *= 2;
  }
  const GroupPlacement placement = {.num_ranks = 2, .num_nodes = 1, .ranks_per_node = 2};
  CHECK(collective_seconds(read, Collective::all_gather, placement, 1024) == Approx(0.5));
}

TEST_CASE("A lesson that is none, wrong flags and too many ranks are the user's mistakes") {
  StepCalls calls;
  CHECK_THROWS_AS(add_calls({"99_none", {}}, 1, calls), UserError);
  CHECK_THROWS_AS(add_calls({"01_single_gpu", {}}, 2, calls), UserError);
  CHECK_THROWS_AS(add_calls({"02_ddp", {"--model", "none"}}, 1, calls), UserError);
  CHECK_THROWS_AS(add_calls({"02_ddp", {"--global-batch-size", "3"}}, 2, calls), UserError);
}

}  // namespace
}  // namespace ladder
