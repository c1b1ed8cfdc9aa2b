#include "tools/measure/calibrator/calibration.h"

#include <limits>

#include "common/cluster/comm_time.h"
#include "common/cluster/kernel_time.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"
#include "tools/measure/calibrator/kernel_case.h"

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

TEST_CASE("Every kernel of every lesson is called with arguments that cost what the lesson's do") {
  const auto [ranks, dtype] = GENERATE(
      std::pair<size_t, std::string>{1, "fp32"}, std::pair<size_t, std::string>{2, "fp32"},
      std::pair<size_t, std::string>{2, "fp64"}, std::pair<size_t, std::string>{2, "bf16"});
  for (const std::string& lesson : lessons_to_calibrate()) {
    if (lesson == "01_single_gpu" && ranks > 1) continue;
    if (lesson == "06_offload" && dtype == "bf16") continue;  // it updates on the host
    std::vector<std::string> flags = kNano;
    flags.insert(flags.end(), {"--dtype", dtype});
    if (lesson == "09_3d_parallel" && ranks == 2) {
      flags.insert(flags.end(), {"--tensor-parallel-size", "2"});
    }
    const StepCalls step = calls_of_step({lesson, flags}, ranks);
    CHECK(step.bytes > 0);
    CHECK(step.kernels.size() > 20);
    Buffers buffers;
    Stream stream(DeviceType::cpu);
    for (const auto& [call, count] : step.kernels) {
      CAPTURE(lesson, ranks, call.name, name_of(call.dtype), call.cost.bytes());
      CHECK(count > 0);
      KernelCase one;
      REQUIRE_NOTHROW(one = case_of(call, buffers));
      buffers.prepare(stream, 0);
      // It runs: the kernel takes the arguments.
      for (int i = 0; i < 3; ++i) {
        buffers.next();
        REQUIRE_NOTHROW(one(stream, buffers));
      }
    }
  }
}

TEST_CASE("A kernel that is not known, or a cost that no arguments have, is an error") {
  Buffers buffers;
  CHECK_THROWS_WITH(case_of({"fft", DType::fp32, {}}, buffers), ContainsSubstring("kernel fft"));
  const Cost odd = {.other_flops = 80, .bytes_read = 1, .bytes_written = 2};
  CHECK_THROWS_WITH(case_of({"gelu_forward", DType::fp32, odd}, buffers),
                    ContainsSubstring("no arguments of gelu_forward"));
}

TEST_CASE("Cold arguments move through the pool, and warm ones stay") {
  Buffers buffers;
  Stream stream(DeviceType::cpu);
  buffers.count();
  buffers.cold_in({16}, DType::fp32);
  for (int i = 0; i < 3; ++i) buffers.warm_out({16}, DType::fp32);
  buffers.prepare(stream, 4096);
  std::vector<const void*> cold;
  const void* warm = nullptr;
  for (size_t i = 0; i < 4096 / 64; ++i) {
    buffers.next();
    const void* const place = buffers.cold_in({16}, DType::fp32).data();
    CHECK(std::ranges::find(cold, place) == cold.end());
    cold.push_back(place);
    const void* const same = buffers.warm_out({16}, DType::fp32).data();
    if (i % 2 == 0) buffers.warm_out({16}, DType::fp32);  // calls may differ
    CHECK((warm == nullptr || warm == same));
    warm = same;
  }
  buffers.next();
  CHECK(buffers.cold_in({16}, DType::fp32).data() == cold.front());
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
  for (const auto& [call, count] : calls_of_step(run, 1).kernels) {
    CAPTURE(call.name, call.cost.bytes());
    CHECK(kernel_seconds(points, call, 1) < 1);
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
  CHECK_THROWS_AS(calls_of_step({"99_none", {}}, 1), UserError);
  CHECK_THROWS_AS(calls_of_step({"01_single_gpu", {}}, 2), UserError);
  CHECK_THROWS_AS(calls_of_step({"02_ddp", {"--model", "none"}}, 1), UserError);
  CHECK_THROWS_AS(calls_of_step({"02_ddp", {"--global-batch-size", "3"}}, 2), UserError);
}

}  // namespace
}  // namespace ladder
