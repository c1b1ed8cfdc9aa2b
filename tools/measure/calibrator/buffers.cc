#include "tools/measure/calibrator/buffers.h"

#include <algorithm>

#include "kernels/elementwise.h"

namespace ladder {
namespace {

constexpr size_t kAlignment = 64;
// Every argument's address while needs are counted.
alignas(kAlignment) char no_bytes[kAlignment];

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void Buffers::count() {
  counts_ = true;
  for (auto& [key, pool] : pools_) pool.needed = 0;
}

void Buffers::prepare(Stream& stream, size_t cold_bytes) {
  counts_ = false;
  for (auto& [key, pool] : pools_) {
    pool.used = 0;
    if (pool.needed == 0) continue;
    const size_t bytes = key.warm ? pool.needed : std::max(2 * pool.needed, aligned(cold_bytes));
    const bool is_large = !pool.memory.view().empty() && pool.memory.view().num_bytes() >= bytes;
    if (!is_large) {
      pool.memory = {};
      pool.memory = Tensor(memory_, Category::workspace, key.dtype, {bytes / size_of(key.dtype)});
      if (!key.written) fill_normal(stream, pool.memory, 1, 0, 0.02);
    }
    if (key.written) fill(stream, pool.memory, 0.01);
  }
}

void Buffers::next() {
  for (auto& [key, pool] : pools_) {
    if (key.warm) pool.used = 0;
  }
}

TensorView Buffers::at(bool warm, bool written, DType dtype, const Shape& shape) {
  Pool& pool = pools_[{warm, written, dtype}];
  const size_t bytes = aligned(shape.num_elements() * size_of(dtype));
  if (counts_) {
    pool.needed += bytes;
    return TensorView(no_bytes, dtype, DeviceType::cpu, shape);
  }
  const size_t all = pool.memory.view().num_bytes();
  check(bytes <= all, "Buffers: an argument is larger than its pool");
  if (pool.used + bytes > all) pool.used = 0;
  const TensorView view = pool.memory.view().elements(pool.used / size_of(dtype), shape);
  pool.used += bytes;
  return view;
}

ConstTensorView Buffers::tokens(const Shape& shape) {
  if (counts_) return TensorView(no_bytes, DType::int32, DeviceType::cpu, shape);
  const size_t count = shape.num_elements();
  if (tokens_.used < count) {
    tokens_.memory = Tensor(memory_, Category::workspace, DType::int32, {count});
    for (size_t i = 0; i < count; ++i) {
      tokens_.memory.view().as<int32_t>()[i] = static_cast<int32_t>(i * 7919 % kNumTokens);
    }
    tokens_.used = count;
  }
  return tokens_.memory.view().elements(0, shape);
}

}  // namespace ladder
