#include "kernels/machine_limits.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/runtime/clock.h"

namespace ladder {
namespace {

// These write the processor's own instructions, because what is measured is how fast these are.
#ifdef __x86_64__

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

double multiply_add_widest(int64_t rounds) {
  return __builtin_cpu_supports("avx512f") ? multiply_add_512(rounds)
                                           : multiply_add_256(2 * rounds);
}

#else

double multiply_add_widest(int64_t rounds) {
  constexpr int kVectors = 24, kLanes = 4;
  typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
  Vector sums[kVectors];
  for (int i = 0; i < kVectors; ++i) sums[i] = static_cast<float>(i) - Vector{};
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 24
    for (Vector& sum : sums) {
      for (int l = 0; l < kLanes; ++l) sum[l] = std::fma(sum[l], 0.5F, 0.5F);
    }
  }
  for (const Vector& sum : sums) asm volatile("" : : "w"(sum));
  return 2.0 * kLanes * kVectors * static_cast<double>(rounds);
}

#endif

double measure_fma_rate() {
  constexpr int64_t kRounds = 400'000;
  double best = 0;
  for (int repetition = 0; repetition < 5; ++repetition) {
    const auto begin = Clock::now();
    int threads = 0;
    double flops = 0;
#pragma omp parallel reduction(+ : threads)
    {
      threads += 1;
      const double own = multiply_add_widest(kRounds);
#pragma omp atomic write
      flops = own;
    }
    best = std::max(best, flops * threads / seconds_since(begin));
  }
  return best;
}

// Returns the shortest time of five.
double least_seconds(Stream& stream, const std::function<void()>& call) {
  call();
  double least = seconds_of(stream, 1, call);
  for (int i = 1; i < 5; ++i) least = std::min(least, seconds_of(stream, 1, call));
  return least;
}

double measure_bandwidth(Stream& stream) {
  const bool on_cpu = stream.device() == DeviceType::cpu;
  // An array has 128 MiB, or 1 GiB on a GPU, which has up to 50 MB of cache.
  const size_t elements = size_t{stream.device() == DeviceType::cuda ? 256u : 32u} << 20;
  Memory memory(stream.device(), "limits", 0);
  const Tensor a(memory, Category::workspace, DType::fp32, {elements});
  const Tensor b(memory, Category::workspace, DType::fp32, {elements});
  fill(stream, b, 1);
  const auto call = [&] { on_cpu ? add(stream, a, a, b) : copy(stream, a, b); };
  return (on_cpu ? 3.0 : 2.0) * static_cast<double>(a.view().num_bytes()) /
         least_seconds(stream, call);
}

double measure_product(Stream& stream, DType dtype) {
  const size_t n = stream.device() == DeviceType::cuda ? 8192 : 512;
  Memory memory(stream.device(), "limits", 0);
  const Tensor a(memory, Category::workspace, dtype, {n, n}),
      b(memory, Category::workspace, dtype, {n, n});
  const Tensor out(memory, Category::workspace, dtype, {n, n});
  fill_normal(stream, a, 1, 0, 1);
  fill_normal(stream, b, 2, 0, 1);
  return 2.0 * static_cast<double>(n * n * n) /
         least_seconds(stream, [&] { matmul(stream, out, a, b); });
}

}  // namespace

double measure(Limit limit, Stream& stream) {
  const bool on_cpu = stream.device() == DeviceType::cpu;
  if (limit == Limit::bandwidth) return measure_bandwidth(stream);
  check((limit != Limit::tf32 && limit != Limit::bf16) || !on_cpu,
        "products in TF32 and bf16 are measured on a GPU");
  if (on_cpu)
    return measure_fma_rate() / (limit == Limit::fp64 ? 2 : 1);  // half as many in a vector
  set_tf32(limit == Limit::tf32);
  const double rate = measure_product(stream, limit == Limit::fp64   ? DType::fp64
                                              : limit == Limit::bf16 ? DType::bf16
                                                                     : DType::fp32);
  set_tf32(false);
  return rate;
}

double seconds_of(Stream& stream, int count, const std::function<void()>& call) {
  Event begin, end;
  begin.record(stream);
  for (int i = 0; i < count; ++i) call();
  end.record(stream);
  end.synchronize();
  return 1e-3 * Event::elapsed_ms(begin, end);
}

}  // namespace ladder
