#include "kernels/machine_limits.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>

#include "kernels/elementwise.h"
#include "kernels/runtime/clock.h"

namespace ladder {
namespace {

// `rounds` times a multiply-add on each of enough vectors to hide its latency. Returns FLOP.
__attribute__((target("avx512f"), noinline)) double multiply_add_512(int64_t rounds) {
  constexpr int kVectors = 24;
  __m512 sums[kVectors];
  for (int i = 0; i < kVectors; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 factor = _mm512_set1_ps(0.5f);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 24
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, factor, factor);
  }
  for (const __m512& sum : sums) asm volatile("" : : "v"(sum));
  return 2.0 * 16 * kVectors * static_cast<double>(rounds);
}

__attribute__((noinline)) double multiply_add_256(int64_t rounds) {
  constexpr int kVectors = 12;
  __m256 sums[kVectors];
  for (int i = 0; i < kVectors; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 factor = _mm256_set1_ps(0.5f);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, factor, factor);
  }
  for (const __m256& sum : sums) asm volatile("" : : "x"(sum));
  return 2.0 * 8 * kVectors * static_cast<double>(rounds);
}

}  // namespace

double measure_fma_rate() {
  constexpr int64_t kRounds = 400'000;
  const bool wide = __builtin_cpu_supports("avx512f");
  double best = 0;
  for (int repetition = 0; repetition < 5; ++repetition) {
    const auto begin = std::chrono::steady_clock::now();
    int threads = 0;
    double flops = 0;
#pragma omp parallel reduction(+ : threads)
    {
      threads += 1;
      const double own = wide ? multiply_add_512(kRounds) : multiply_add_256(2 * kRounds);
#pragma omp atomic write
      flops = own;
    }
    best = std::max(best, flops * threads / seconds_since(begin));
  }
  return best;
}

double measure_bandwidth() {
  constexpr size_t kElements = size_t{32} << 20;  // 128 MiB each
  static Memory memory(DeviceType::cpu, "limits", 0);
  static const Tensor a(memory, Category::workspace, DType::fp32, {kElements});
  static const Tensor b(memory, Category::workspace, DType::fp32, {kElements});
  Stream stream(DeviceType::cpu);
  double best = 0;
  for (int repetition = 0; repetition < 5; ++repetition) {
    const auto begin = std::chrono::steady_clock::now();
    add(stream, a, a, b);
    best = std::max(best, 3.0 * sizeof(float) * kElements / seconds_since(begin));
  }
  return best;
}

}  // namespace ladder
