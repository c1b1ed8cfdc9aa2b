#include "kernels/adamw.h"

#include <cstdint>

#include "kernels/cuda/pack.h"

namespace ladder::cuda {
namespace {

constexpr unsigned kThreads = 256;

// Tensors that lie side by side, or one: its thread blocks are those from first_block on.
template <class T>
struct Segment {
  T *param, *exp_avg, *exp_avg_sq;
  const T* grad;
  void* copy;
  size_t count;  // elements
  unsigned first_block;
  bool decays;
};

// A kernel's arguments have at most 4 KiB.
constexpr unsigned kMostSegments = 56;
template <class T>
struct Segments {
  unsigned count = 0, blocks = 0;
  Segment<T> segment[kMostSegments];

  // Returns the one that a thread block belongs to.
  __device__ const Segment<T>& of_block(unsigned block) const {
    unsigned found = 0;
    for (unsigned step = 32; step > 0; step /= 2) {
      const unsigned next = found + step;
      if (next < count && segment[next].first_block <= block) found = next;
    }
    return segment[found];
  }
};
static_assert(sizeof(Segments<double>) + sizeof(AdamWFactors<double>) <= 4096);
static_assert(kMostSegments <= 64);  // what of_block() finds

// Updates N elements, and stores the parameters in the dtype Copy as well, unless that is T.
template <unsigned N, class T, class Copy>
__device__ void update(const Segment<T>& segment, size_t first, const AdamWFactors<T>& factors) {
  Pack<T, N> p = load<N>(segment.param + first), m = load<N>(segment.exp_avg + first);
  Pack<T, N> v = load<N>(segment.exp_avg_sq + first);
  const Pack<T, N> g = load<N>(segment.grad + first);
  for (unsigned k = 0; k < N; ++k) {
    adamw_element(p.element[k], m.element[k], v.element[k], g.element[k], factors);
  }
  store(segment.param + first, p);
  store(segment.exp_avg + first, m);
  store(segment.exp_avg_sq + first, v);
  if constexpr (!std::is_same_v<Copy, T>) store(static_cast<Copy*>(segment.copy) + first, p);
}

template <unsigned N, class T, class Copy>
__global__ void adamw_kernel(Segments<T> segments, AdamWFactors<T> factors) {
  const Segment<T>& segment = segments.of_block(blockIdx.x);
  if (!segment.decays) factors.keep = 1;
  const size_t n = segment.count;
  const size_t first = (size_t{blockIdx.x - segment.first_block} * kThreads + threadIdx.x) * N;
  if (first + N <= n) {
    update<N, T, Copy>(segment, first, factors);
  } else {
    for (size_t i = first; i < n; ++i) update<1, T, Copy>(segment, i, factors);
  }
}

// Returns whether b lies just after a in all its tensors.
bool are_neighbours(const AdamWTensors& a, const AdamWTensors& b) {
  const auto touch = [](const ConstTensorView& x, const ConstTensorView& y) {
    return static_cast<const char*>(x.data()) + x.num_bytes() == y.data();
  };
  return a.decays == b.decays && touch(a.param, b.param) && touch(a.exp_avg, b.exp_avg) &&
         touch(a.exp_avg_sq, b.exp_avg_sq) && touch(a.grad, b.grad) &&
         (a.copy.empty() || touch(a.copy, b.copy));
}

template <class T, class Copy>
void update_all(Stream& stream, const std::vector<AdamWTensors>& tensors, const AdamWStep& step) {
  const AdamWFactors<T> factors(step);
  bool in_packs = true;
  for (const AdamWTensors& one : tensors) {
    in_packs = in_packs && packs_are_aligned<kPack<T>>(one.param.as<T>(), one.exp_avg.as<T>(),
                                                       one.exp_avg_sq.as<T>(), one.grad.as<T>());
    if constexpr (!std::is_same_v<Copy, T>) {
      in_packs = in_packs && packs_are_aligned<kPack<T>>(one.copy.as<Copy>());
    }
  }
  dispatch_pack<T>(in_packs, [&](auto pack) {
    constexpr size_t kOfBlock = size_t{kThreads} * pack;
    Segments<T> segments;
    const auto launch_them = [&] {
      const dim3 grid(segments.blocks);
      launch<adamw_kernel<pack, T, Copy>>(stream.native(), {grid, dim3(kThreads)}, segments,
                                          factors);
      segments.count = segments.blocks = 0;
    };
    for (size_t begin = 0, end; begin < tensors.size(); begin = end) {
      size_t count = tensors[begin].param.num_elements();
      for (end = begin + 1; end < tensors.size(); ++end) {
        if (!are_neighbours(tensors[end - 1], tensors[end])) break;
        count += tensors[end].param.num_elements();
      }
      const AdamWTensors& one = tensors[begin];
      segments.segment[segments.count++] = {.param = one.param.as<T>(),
                                            .exp_avg = one.exp_avg.as<T>(),
                                            .exp_avg_sq = one.exp_avg_sq.as<T>(),
                                            .grad = one.grad.as<T>(),
                                            .copy = one.copy.data(),
                                            .count = count,
                                            .first_block = segments.blocks,
                                            .decays = one.decays};
      segments.blocks += static_cast<unsigned>((count + kOfBlock - 1) / kOfBlock);
      if (segments.count == kMostSegments) launch_them();
    }
    launch_them();
  });
}

}  // namespace

void adamw(Stream& stream, const std::vector<AdamWTensors>& tensors, const AdamWStep& step) {
  const TensorView& copy = tensors.front().copy;
  dispatch_accumulation(tensors.front().param.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (copy.empty()) return update_all<T, T>(stream, tensors, step);
    if (copy.dtype() == DType::bf16) return update_all<float, bfloat16>(stream, tensors, step);
    update_all<float, float16>(stream, tensors, step);
  });
}

}  // namespace ladder::cuda
