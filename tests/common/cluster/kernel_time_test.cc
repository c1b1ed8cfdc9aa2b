#include "common/cluster/kernel_time.h"

#include <cmath>

#include "tests/catch.h"

namespace ladder {
namespace {

// Ten multiprocessors of 100 GFLOP/s that reach 80 %, and 90 GB/s.
Cluster small_gpu() {
  Cluster cluster = {.device = "a GPU",
                     .multiprocessors = 10,
                     .vector_flops = 1e11,
                     .memory_bandwidth = 1e11,
                     .least_kernel_seconds = 1e-3,
                     .attention_forward_efficiency = 0.5,
                     .attention_backward_efficiency = 0.25,
                     .memory_efficiency = 0.9,
                     .host_memory_bandwidth = 1e10,
                     .host_memory_efficiency = 0.5,
                     .host_flops = 1e9};
  cluster.product_flops[static_cast<size_t>(DType::fp32)] = 1e12;
  cluster.product_flops[static_cast<size_t>(DType::fp16)] = 1e12;
  cluster.product_efficiency.fill(0.8);
  return cluster;
}

KernelCall product(size_t m, size_t n, size_t k, DType dtype = DType::fp32) {
  const double flops = 2 * number_of(m) * number_of(n) * number_of(k);
  return {"matmul", dtype, {.product_flops = flops, .m = m, .n = n, .k = k}};
}

KernelCall moving(const char* name, double bytes) {
  return {name, DType::fp32, {.bytes_read = bytes / 2, .bytes_written = bytes / 2}};
}

// The FLOP/s of a product on a known device, without the least time of a kernel.
double flops_of(const std::string& device, size_t m, size_t n, size_t k, DType dtype) {
  const Cluster cluster = read_cluster(device);
  return product_efficiency(cluster, m, n, k, dtype) *
         cluster.product_flops[static_cast<size_t>(dtype)];
}

TEST_CASE("a kernel takes as long as what it needs most of") {
  const Cluster gpu = small_gpu();
  CHECK(kernel_seconds(gpu, moving("add", 9e9)) == Approx(1e-3 + 0.1));
  KernelCall call = moving("add", 9e9);
  call.cost.other_flops = 2e10;
  CHECK(kernel_seconds(gpu, call) == Approx(1e-3 + 0.2));
  call.cost.product_flops = 8e11;
  CHECK(kernel_seconds(gpu, call) == Approx(1e-3 + 1));
  call.name = "attention_forward";
  CHECK(kernel_seconds(gpu, call) == Approx(1e-3 + 1.6));
  call.name = "attention_of_tile_backward";
  CHECK(kernel_seconds(gpu, call) == Approx(1e-3 + 3.2));
  CHECK(kernel_seconds(gpu, moving("add", 0)) == 1e-3);
}

// Attention of 2 sequences of 100 tokens with 3 heads of 40 elements, in fp16.
KernelCall attention(const char* name, double num_products) {
  const double seen = 2 * 3 * 100 * 50;  // half of all pairs
  return {name, DType::fp16, {.product_flops = num_products * 2 * 40 * seen, .other_flops = seen}};
}

TEST_CASE("attention that is not one kernel computes all pairs and moves their scores") {
  Cluster gpu = small_gpu();
  gpu.program.attention_forward_score_bytes = 8;
  gpu.program.attention_backward_score_bytes = 9;
  const double pairs = 2 * 3 * 100 * 100, flops = 2 * 40 * pairs;  // of a product
  const double forward = 2 * flops / 8e11 + 8 * pairs / 9e10;
  const double backward = 4 * flops / 8e11 + 9 * pairs / 9e10;
  const auto seconds = [&](const char* name, double num_products) {
    return kernel_seconds(gpu, attention(name, num_products)) - 1e-3;
  };
  CHECK(seconds("attention_forward", 2) == Approx(forward));
  CHECK(seconds("attention_backward", 5) == Approx(backward));
  gpu.program.recomputes_attention = true;
  CHECK(seconds("attention_backward", 5) == Approx(forward + backward));
  // A product takes as long as its scores take to be written or read, if that is longer.
  gpu.product_flops.fill(1e14);
  CHECK(seconds("attention_forward", 2) == Approx((2 * 2 + 8) * pairs / 9e10));
  gpu.product_flops.fill(1e12);
  // A ring's attention of one block has no causal half, and is one kernel everywhere.
  CHECK(seconds("attention_of_tile_forward", 2) == Approx(2 * 40 * pairs / 2 * 2 / 5e11));
}

TEST_CASE("another program runs more kernels, which move more") {
  Cluster gpu = small_gpu();
  gpu.program.kernels = {{.kernel = "add", .launches = 3, .more_bytes = 0.5},
                         {.kernel = "matmul", .launches = 2, .more_bytes = 3}};
  CHECK(kernel_seconds(gpu, moving("add", 9e10)) == Approx(3e-3 + 1.5));
  CHECK(kernel_seconds(gpu, moving("scale", 9e10)) == Approx(1e-3 + 1));
  // Of a product, three times the bytes of its result, which are 4 an element.
  const double alone = kernel_seconds(small_gpu(), product(1000, 256, 100000)) - 1e-3;
  CHECK(kernel_seconds(gpu, product(1000, 256, 100000)) ==
        Approx(2e-3 + alone + 3 * 4 * 1000 * 256 / 9e10));
}

TEST_CASE("tiles of a product come in waves") {
  // A tile of 128 x 256 takes 2 * 128 * 256 * 1e5 / 80e9 seconds, and half of its 131072 bytes are
  // written at a tenth of 90e9 bytes a second while nobody multiplies.
  const double wave = 2 * 128 * 256 * 1e5 / 80e9 + 0.5 * 131072 * 10 / 90e9;
  const auto seconds = [](size_t m) {
    return kernel_seconds(small_gpu(), product(m, 256, 100000)) - 1e-3;
  };
  CHECK(seconds(10 * 128) == Approx(wave));
  CHECK(seconds(10 * 128 - 100) == Approx(wave));  // ten tiles, of which one sticks out
  CHECK(seconds(100 * 128) == Approx(10 * wave));
  CHECK(seconds(101 * 128) == Approx(11 * wave).epsilon(0.05));
  CHECK(seconds(101 * 128) > 1.05 * seconds(100 * 128));
  CHECK(product_efficiency(small_gpu(), 1280, 256, 100000, DType::fp32) ==
        Approx(2 * 1280 * 256 * 1e5 / 1e12 / wave));
}

TEST_CASE("a deep product of few tiles is summed in parts") {
  const Cluster gpu = small_gpu();
  // One tile of 64 x 64: sixteen parts in two waves would do, but ten in one are as fast.
  const double parts = number_of(2 * 64 * 64) * 1e5 / 10 / (80e9 * 0.6);
  CHECK(kernel_seconds(gpu, product(64, 64, 100000)) < 1e-3 + 1.05 * parts);
  CHECK(kernel_seconds(gpu, product(64, 64, 100000)) >= 1e-3 + parts);
}

TEST_CASE("a short sum reaches less of the peak") {
  const Cluster gpu = read_cluster("h100");
  double last = 0;
  for (size_t k : {64, 128, 256, 768, 2048, 8192}) {
    const double part = product_efficiency(gpu, 16384, 16384, k, DType::bf16);
    CHECK(part > last);
    last = part;
  }
  CHECK(last < 0.837);
}

TEST_CASE("on tensor cores the last odd columns are a product of their own") {
  const Cluster gpu = read_cluster("h100");
  const auto seconds = [&](size_t m, size_t n, size_t k) {
    return kernel_seconds(gpu, product(m, n, k, DType::bf16));
  };
  const double even = seconds(4096, 50256, 768), memory = 3.35e12 * 0.9;
  CHECK(seconds(4096, 50257, 768) == Approx(even + 2e-6 + 4096 * 768 * 2 / memory));
  CHECK(seconds(50257, 768, 4096) ==
        Approx(seconds(50256, 768, 4096) + 2e-6 + 4096 * 768 * 2 / memory));
  CHECK(seconds(4096, 768, 50257) ==
        Approx(seconds(4096, 768, 50256) + 2e-6 + 4096 * 768 * 2 / memory));
  // Small ones are slow as a whole.
  CHECK(seconds(1 << 20, 7, 768) > 5 * seconds(1 << 20, 8, 768));
  CHECK(kernel_seconds(gpu, product(4096, 50257, 768)) <
        1.001 * kernel_seconds(gpu, product(4096, 50304, 768)));  // not in fp32
}

TEST_CASE("time grows with the extents") {
  const Cluster gpu = read_cluster("a100-80");
  double last = 0;
  for (size_t extent = 256; extent <= 16384; extent += 256) {
    const double seconds = kernel_seconds(gpu, product(4096, extent, 4096, DType::bf16));
    CHECK(seconds >= last);
    last = seconds;
  }
}

// Products that others measured, in TFLOP/s.
//   Fitted: the first two with product_efficiency; the part of a tile's write that does not overlap
//   with products is chosen with the next three and GPT-2, below, in view.
//   Best shapes of stas00/ml-engineering, compute/accelerator, the maximum achievable matmul FLOPS.
//   RTX 3060: zzc0721/torch-performance-test-data issue 131; the largest is fitted.
TEST_CASE("products that others measured") {
  const auto near = [](double tflops, double margin, const char* device, size_t m, size_t n,
                       size_t k) {
    CAPTURE(device, m, n, k);
    CHECK(flops_of(device, m, n, k, DType::bf16) == Approx(tflops * 1e12).epsilon(margin));
  };
  near(271.2, 0.003, "a100-80", 1024, 10240, 5120);
  near(794.5, 0.003, "h100", 2048, 2048, 13312);
  near(267.9, 0.01, "a100-80", 6912, 16384, 2048);
  near(792.1, 0.03, "h100", 6144, 17920, 2816);
  near(256.4, 0.10, "a100-80", 2304, 5120, 1536);
  near(25.47, 0.02, "rtx3060", 10240, 10240, 10240);
  near(25.42, 0.03, "rtx3060", 8192, 8192, 8192);
  near(24.29, 0.02, "rtx3060", 4096, 4096, 4096);
  near(23.69, 0.06, "rtx3060", 2048, 2048, 2048);
  near(19.04, 0.12, "rtx3060", 1024, 1024, 1024);
}

// notes/performance.md: of 18.3 ms of products in a step of GPT-2 124M, B = 16, T = 1024, bf16, the
// classifier's take 6. The linear layers have 12 x 12 products.
TEST_CASE("the products of GPT-2 on an H100") {
  constexpr size_t kRows = 16384, kHidden = 768;
  double sum = 0;
  const Cluster gpu = read_cluster("h100");
  for (const auto& [in, out] : {std::pair<size_t, size_t>{1, 3}, {1, 1}, {1, 4}, {4, 1}}) {
    const size_t k = in * kHidden, n = out * kHidden;
    sum += kernel_seconds(gpu, product(kRows, n, k, DType::bf16));
    sum += kernel_seconds(gpu, product(kRows, k, n, DType::bf16));
    sum += kernel_seconds(gpu, product(k, n, kRows, DType::bf16));
  }
  CHECK(12 * sum == Approx(12.3e-3).epsilon(0.05));
}

TEST_CASE("a dtype without products is refused") {
  CHECK_THROWS_WITH(kernel_seconds(read_cluster("v100"), product(8, 8, 8, DType::bf16)),
                    "NVIDIA V100 SXM2 32 GB has no products in bf16");
  CHECK(kernel_seconds(read_cluster("v100"), moving("add", 8)) > 0);
}

TEST_CASE("busy ranks share a CPU, and a host, but no GPU") {
  Cluster cluster = small_gpu();
  CHECK(kernel_seconds(cluster, moving("add", 9e9), 4) == Approx(1e-3 + 0.1));
  CHECK(host_kernel_seconds(cluster, moving("adamw", 5e9)) == Approx(1));
  CHECK(host_kernel_seconds(cluster, moving("adamw", 5e9), 4) == Approx(4));
  KernelCall call = moving("adamw", 5e9);
  call.cost.other_flops = 2e9;
  CHECK(host_kernel_seconds(cluster, call) == Approx(2));
  cluster.is_cpu = true;
  CHECK(kernel_seconds(cluster, moving("add", 9e9), 4) == Approx(1e-3 + 0.4));
  CHECK(host_kernel_seconds(cluster, moving("add", 9e9), 4) == Approx(1e-3 + 0.4));
  CHECK(kernel_seconds(cluster, product(100, 100, 4000)) == Approx(1e-3 + 8e7 / 8e11));
}

// A CPU with points of two kernels.
Cluster measured() {
  Cluster cluster = small_gpu();
  cluster.is_cpu = true;
  const DType fp32 = DType::fp32;
  cluster.kernels = {
      {.name = "attention_forward", .points = {{.work = 1e6, .in_flops = true, .seconds = 1}}},
      {.name = "gelu_forward",
       .points = {{.work = 100, .seconds = 1e-3},
                  {.work = 10000, .seconds = 4e-3},
                  {.work = 20000, .seconds = 16e-3},
                  {.dtype = fp32, .busy_ranks = 2, .work = 100, .seconds = 5e-3}}},
      {.name = "matmul",
       .points = {{.m = 64, .n = 64, .k = 64, .seconds = 1e-3},
                  {.m = 64, .n = 64, .k = 1024, .seconds = 8e-3}}}};
  return cluster;
}

TEST_CASE("measured points are interpolated in logarithms") {
  const Cluster cpu = measured();
  const auto seconds = [&](double bytes, size_t busy_ranks) {
    return kernel_seconds(cpu, moving("gelu_forward", bytes), busy_ranks);
  };
  CHECK(seconds(100, 1) == Approx(1e-3));
  CHECK(seconds(10000, 1) == Approx(4e-3));
  CHECK(seconds(1000, 1) == Approx(2e-3));
  CHECK(seconds(20000, 1) == Approx(16e-3));
  CHECK(seconds(40000, 1) == Approx(32e-3));  // not with the square of the work
  CHECK(seconds(1, 1) == Approx(0.25e-3));
  CHECK(seconds(100, 2) == Approx(5e-3));
  CHECK(seconds(200, 2) == Approx(10e-3));
  CHECK(seconds(100, 8) == Approx(5e-3));  // the nearest that was measured
  KernelCall call = moving("attention_forward", 100);
  call.cost.product_flops = 3e6;
  CHECK(kernel_seconds(cpu, call) == Approx(3));
  CHECK(kernel_seconds(cpu, moving("add", 9e9)) == Approx(1e-3 + 0.1));  // no points
  call = moving("gelu_forward", 100);
  call.dtype = DType::fp16;
  CHECK(kernel_seconds(cpu, call) < 1.01e-3);  // none in this dtype
}

TEST_CASE("measured products count by their extents") {
  const Cluster cpu = measured();
  const auto seconds = [&](size_t m, size_t n, size_t k) {
    return kernel_seconds(cpu, product(m, n, k));
  };
  CHECK(seconds(64, 64, 64) == Approx(1e-3));
  CHECK(seconds(64, 64, 1024) == Approx(8e-3));
  // Half way between both, in logarithms, an operation takes the geometric mean of their times.
  CHECK(seconds(64, 64, 256) == Approx(4e-3 / std::sqrt(2.0)));
  CHECK(seconds(64, 64, 64 * 1024) > 0.5 * 64 * 8e-3);
}

}  // namespace
}  // namespace ladder
