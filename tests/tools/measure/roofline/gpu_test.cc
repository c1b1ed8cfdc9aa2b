// How long the roofline says that launches and products take, against times worked out by hand.
#include "tools/measure/roofline/gpu.h"

#include <algorithm>

#include "common/cluster/kernel_time.h"
#include "tests/catch.h"
#include "tools/measure/roofline/instructions.h"
#include "tools/measure/roofline/table.h"

namespace ladder::roofline {
namespace {

using emulator::Counts, emulator::Profile, emulator::ProductCall;

const Cluster& h100() {
  static const Cluster gpu = read_gpu("h100");
  return gpu;
}

// Without the pause between kernels.
Time time_of_counts(const Counts& counts, double blocks = 132) {
  Profile profile;
  profile.blocks = blocks;
  profile.counts = counts;
  Time time = time_of(h100(), profile, DType::bf16);
  time.seconds -= h100().least_kernel_seconds;
  return time;
}

double seconds_of_product(const ProductCall& product) {
  Profile profile;
  profile.kind = Profile::Kind::product;
  profile.product = product;
  return time_of(h100(), profile, DType::bf16).seconds - h100().least_kernel_seconds;
}

TEST_CASE("roofline: a kernel takes as long as the slowest of what it needs") {
  Counts counts;
  counts.memory_sectors = 3.35e9 * 0.9 / 32;  // a millisecond of memory
  CHECK(time_of_counts(counts).seconds == Approx(1e-3));
  CHECK(time_of_counts(counts).bound == "memory");
  counts.global_sectors = 24 * 132 * 1.83e6 / 32 * 1.5;
  CHECK(time_of_counts(counts).seconds == Approx(1.5e-3));
  CHECK(time_of_counts(counts).bound == "cache");
  counts.tensor_flops = 0.28 * 989.4e9 * 2;
  CHECK(time_of_counts(counts).seconds == Approx(2e-3));
  CHECK(time_of_counts(counts).bound == "tensor cores");
  counts.special_functions = 16 * 132 * 1.83e6 * 3;
  CHECK(time_of_counts(counts).seconds == Approx(3e-3));
  CHECK(time_of_counts(counts).bound == "exp");
  counts.fused_flops = 0.7 * 66.9e9 * 4;
  CHECK(time_of_counts(counts).seconds == Approx(4e-3));
  CHECK(time_of_counts(counts).bound == "multiply-add");
  counts.shared_cycles = 132 * 1.83e6 * 5;
  CHECK(time_of_counts(counts).seconds == Approx(5e-3));
  CHECK(time_of_counts(counts).bound == "shared memory");
}

// 132 thread blocks of 8 warps, in which each warp has what stands in the kernel's straight region.
Profile straight_launch(const std::string& name) {
  Profile profile;
  profile.name = "ladder::cuda::(anonymous namespace)::" + name;
  profile.blocks = 132;
  profile.threads = 256;
  profile.counts.events = code_of(profile.name)->front().events;
  for (double& events : profile.counts.events) events *= 132 * 8;
  return profile;
}

TEST_CASE("roofline: a multiprocessor starts four instructions in a cycle") {
  const std::string name = "adamw_kernel<4, float, bfloat16>";  // nothing but a straight region
  const Profile profile = straight_launch(name);
  const KernelCode& code = *code_of(profile.name);
  REQUIRE(code.size() == 1);
  CHECK(code[0].instructions > 100);
  CHECK(instructions_of(profile) == Approx(132 * 8 * code[0].instructions));
  const Time time = time_of(h100(), profile, DType::bf16);
  CHECK(time.bound == "issue");
  CHECK(time.issue == Approx(8 * code[0].instructions / (4 * 1.83e9)));
  CHECK(time.seconds == Approx(time.issue + h100().least_kernel_seconds));
}

TEST_CASE("roofline: a loop's instructions count as often as its events were counted") {
  Profile profile = straight_launch("forward_kernel<bfloat16, 64, true>");
  const KernelCode& code = *code_of(profile.name);
  double mma = 0;  // in a round of the loop
  for (const Region& region : code) mma += region.events[static_cast<size_t>(emulator::Event::mma)];
  REQUIRE(mma == 128);
  const auto with_rounds = [&](double rounds) {
    Profile launch = profile;
    emulator::of(launch.counts.events, emulator::Event::mma) = 132 * 8 * rounds * mma;
    for (const Region& region : code) {
      if (region.kind == Region::Kind::straight) continue;
      for (size_t i = 1; i < region.events.size(); ++i) {
        launch.counts.events[i] += 132 * 8 * rounds * region.events[i];
      }
    }
    return instructions_of(launch) / (132 * 8);
  };
  const double each = (with_rounds(16) - with_rounds(8)) / 8;
  CHECK(each > 600);
  CHECK(each < 800);
}

TEST_CASE(
    "roofline: of a kernel that the table lacks, and of products, no instructions are known") {
  Profile profile;
  profile.name = "ladder::cuda::no_such_kernel<float>";
  profile.blocks = 132;
  profile.threads = 256;
  CHECK(instructions_of(profile) == 0);
  profile.kind = Profile::Kind::product;
  CHECK(instructions_of(profile) == 0);
}

TEST_CASE("roofline: the busiest multiprocessor decides") {
  Counts counts;
  counts.memory_sectors = 3.35e9 * 0.9 / 32;
  CHECK(time_of_counts(counts, 264).seconds == Approx(1e-3));
  CHECK(time_of_counts(counts, 133).seconds == Approx(1e-3 * 264 / 133));
  CHECK(time_of_counts(counts, 1).seconds == Approx(1e-3 * 132));
}

TEST_CASE("roofline: threads, shared memory or the number of thread blocks limit occupancy") {
  const auto occupancy = [](double blocks, size_t threads, size_t shared_bytes) {
    Profile profile;
    profile.blocks = blocks;
    profile.threads = threads;
    profile.shared_bytes = shared_bytes;
    return most_occupancy(h100(), profile);
  };
  CHECK(occupancy(1e6, 1024, 0) == 1);
  CHECK(occupancy(1e6, 96, 0) == 63. / 64);             // 21 blocks of 3 warps
  CHECK(occupancy(1e6, 33, 0) == 1);                    // 32 blocks of 2 warps, one with one thread
  CHECK(occupancy(1e6, 32, 0) == 0.5);                  // 32 blocks of a warp
  CHECK(occupancy(1e6, 128, 75 << 10) == 3 * 4. / 64);  // 3 (75 + 1) KiB fit into 228
  CHECK(occupancy(1e6, 128, (75 << 10) + 1) == 2 * 4. / 64);
  CHECK(occupancy(133, 256, 0) == 2 * 8. / 64);  // one multiprocessor has two blocks
}

TEST_CASE("roofline: a product takes what its tiles take, longer with a GELU, or its memory") {
  const size_t m = 132 * 128, n = 16 * 128, k = 4096;
  const double tiles =
      2.0 * m * n * k / (989.4e12 * product_efficiency(h100(), m, n, k, DType::bf16));
  CHECK(seconds_of_product({m, n, k, 2, 2, 0}) == Approx(tiles));
  CHECK(seconds_of_product({m, n, k, 2, 2, 1, true}) == Approx(1.4 * tiles));
  // A narrow sum: what it is added to, and what its GELU keeps, take most of the time.
  const double wide = 16384.0 * 16384 * 2, narrow = 16384 * 16 * 2;
  CHECK(seconds_of_product({16384, 16384, 16, 2, 2, 2}) ==
        Approx((3 * wide + 2 * narrow) / (0.9 * 3.35e12)));
}

TEST_CASE("roofline: a device whose file lacks a figure is refused") {
  CHECK(read_gpu("a100-80").emulated == "a100");
  CHECK_THROWS_WITH(read_gpu("v100"), ContainsSubstring("--gpu v100: its file has no clock"));
  CHECK_THROWS_AS(read_gpu("a100"), UserError);
}

TEST_CASE("roofline: the table adds up launches of a kernel and says what is assumed") {
  Profile kernel;
  kernel.name = "ladder::cuda::(anonymous namespace)::adamw_kernel<4, float>";
  kernel.blocks = 132;
  kernel.counts.memory_sectors = 1e6;
  kernel.counts.needed_bytes = 16e6;
  Profile product;
  product.kind = Profile::Kind::product;
  product.name = "cuBLAS";
  product.product = {1024, 1024, 1024, 2, 2, 0};
  const std::vector<Profile> profiles = {kernel, product, kernel};
  RunConfig config;
  config.model_name = "nano";
  config.model = find_preset("nano").config;
  config.dtype = DType::bf16;
  const std::vector<Row> rows = rows_of(profiles, h100(), config.dtype);
  REQUIRE(rows.size() == 2);
  const Row& adamw = *std::ranges::find(rows, "adamw_kernel<4, float>", &Row::name);
  CHECK(adamw.launches == 2);
  CHECK(adamw.seconds == Approx(2 * (32e6 / (0.9 * 3.35e12) + h100().least_kernel_seconds)));
  const std::string table = table_of(rows, h100(), config);
  CHECK_THAT(table, ContainsSubstring("Predicted, not measured"));
  CHECK_THAT(table, ContainsSubstring("50 %"));  // of the sectors are needed
  CHECK_THAT(table, ContainsSubstring("memory   units   issue million"));
  CHECK_THAT(table,
             ContainsSubstring("0.021   0.000       -       -"));  // without events, no issue
  CHECK_THAT(table, ContainsSubstring("0.90 of 3.35 TB/s"));
}

TEST_CASE("roofline: measured times stand beside the predicted ones") {
  const auto row = [](const char* name, size_t launches) {
    Row made;
    made.name = name;
    made.launches = launches;
    return made;
  };
  std::vector<Row> rows = {row("adamw_kernel<4, float>", 2),
                           row("map_kernel<4, float>", 1),
                           row("map_kernel<4, float, bfloat16>", 1),
                           row("cuBLAS", 6),
                           row("embedding_backward_kernel<bfloat16>", 1),
                           row("total_kernel", 3)};
  const std::vector<std::string> others =
      add_measured(rows,
                   "step 1/20  loss 10.9\n"
                   "LADDER_TIME_KERNELS: without the first launch of each kernel\n"
                   "        ms launches   us each  kernel\n"
                   "    40.000       20   2000.00  cuBLAS 16384 768 768\n"
                   "    10.000        5   2000.00  adamw_kernel<4, float>\n"
                   "     5.000       10    500.00  cuBLASLt 16384 3072 768\n"
                   "     4.000        8    500.00  embedding_backward_kernel<bfloat16, float>\n"
                   "     3.000        1   3000.00  map_kernel<4, float, bfloat16>\n"
                   "     1.000        1   1000.00  fill_normal_kernel<bfloat16>\n");
  CHECK(others == std::vector<std::string>{"fill_normal_kernel<bfloat16>"});
  CHECK(rows[0].measured == Approx(4e-3));
  CHECK(rows[1].measured == 0);
  CHECK(rows[2].measured == Approx(3e-3));
  CHECK(rows[3].measured == Approx(6 * 45e-3 / 30));
  CHECK(rows[4].measured == Approx(0.5e-3));
  CHECK(rows[5].measured == 0);
  RunConfig config;
  config.model = find_preset("nano").config;
  const std::string table = table_of(rows, h100(), config);
  CHECK_THAT(table, ContainsSubstring("ms measured"));
  CHECK_THAT(table, ContainsSubstring("16.500 ms measured, kernel by kernel"));
  CHECK_THROWS_WITH(add_measured(rows, "step 1/20\n"), ContainsSubstring("no table"));
}

}  // namespace
}  // namespace ladder::roofline
