// What the tests of collectives share: groups of every size, buffers in every kind of memory, exact
// inputs.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "common/comm/mpi_transport.h"
#include "kernels/runtime/tensor.h"
#include "tests/catch.h"
#include "tests/mpi_main.h"

namespace ladder::testing {

// Where the buffers of a call lie.
enum class Place {
  registered,    // the same offset on every rank
  shifted,       // registered, at another offset on every rank, aligned to an element only
  unregistered,  // in the rank's own memory
  mixed,         // registered on every second rank
  device         // on the device of Ranks, shifted
};
inline constexpr Place kPlaces[] = {Place::registered, Place::shifted, Place::unregistered,
                                    Place::mixed};
inline const char* name_of(Place place) {
  const char* const names[] = {"registered", "shifted", "unregistered", "mixed", "device"};
  return names[static_cast<int>(place)];
}

// Small whole numbers: every sum of eight is exact in every dtype (bf16 has all up to 256), in any
// order, so results are compared bit by bit.
inline int value(size_t rank, size_t i) {
  return static_cast<int>((rank * 7 + i * 3 + i / 50) % 65) - 32;
}

// host = view, wherever that is.
template <class T>
std::vector<T> to_host(const TensorView& view) {
  std::vector<T> host(view.num_elements());
  if (host.empty()) return host;
  Stream stream(view.device());
  copy(stream, TensorView(host.data(), view.dtype(), DeviceType::cpu, view.shape()), view);
  stream.synchronize();
  return host;
}
// view = host.
template <class T>
void to_device(const TensorView& view, const std::vector<T>& host) {
  if (host.empty()) return;
  Stream stream(view.device());
  copy(stream, view, ConstTensorView(host.data(), view.dtype(), DeviceType::cpu, view.shape()));
  stream.synchronize();
}

// What one rank needs to take part.
struct Ranks {
  explicit Ranks(DeviceType device = DeviceType::cpu)
      : stream(device), device_memory(device, "device", 0) {
    for (const Tensor* arena : {&own, &registered, &on_device}) guard_everything(arena->view());
  }

  // n elements of T in the given place, between guards; the next call continues behind them.
  template <class T>
  TensorView take(Place place, size_t n) {
    const size_t rank = world().rank();
    const bool shared = place == Place::mixed ? rank % 2 == 0 : place != Place::unregistered;
    const bool shift = place == Place::shifted || place == Place::device;
    used_ = (used_ + 63) / 64 * 64 + 64 + (shift ? (3 + rank) * sizeof(T) : 0);
    const Tensor& arena = place == Place::device ? on_device : shared ? registered : own;
    check(used_ + n * sizeof(T) + 64 <= arena.view().num_bytes(), "the test's arena is too small");
    char* const begin = static_cast<char*>(arena.view().data()) + used_;
    used_ += n * sizeof(T);
    return TensorView(begin, dtype_of<T>, arena.view().device(), {n});
  }
  // Ends a case: fails if an element outside of what was taken has been written by this rank or,
  // once all ranks of the group have ended it, by a peer. Everything is guard again.
  void release(Communicator& group, std::initializer_list<TensorView> taken) {
    group.barrier();
    for (const TensorView& view : taken) {
      // 32 bytes more on each side, as elements of the same type.
      const size_t unit = size_of(view.dtype()), beside = 32 / unit;
      const TensorView around(static_cast<char*>(view.data()) - 32, view.dtype(), view.device(),
                              {view.num_elements() + 2 * beside});
      for (size_t first : {size_t{0}, view.num_elements() + beside}) {
        const TensorView part = around.elements(first, {beside});
        if (!is_guard(part)) FAIL("an element beside the buffer was written");
      }
      guard_everything(view);
    }
    used_ = 0;
    group.barrier();
  }

  // As the smallest elements there are.
  static TensorView as_halves(const TensorView& view) {
    return TensorView(view.data(), DType::bf16, view.device(), {view.num_bytes() / 2});
  }
  static void guard_everything(const TensorView& view) {
    to_device(as_halves(view), std::vector<bfloat16>(view.num_bytes() / 2, kGuard));
  }
  static bool is_guard(const TensorView& view) {
    return std::ranges::all_of(to_host<bfloat16>(as_halves(view)),
                               [](bfloat16 x) { return x.bits() == kGuard.bits(); });
  }

  static constexpr bfloat16 kGuard = bfloat16::from_bits(0x5b5b);
  static constexpr size_t kArenaBytes = size_t{1} << 20;
  Stream stream;
  Memory memory{DeviceType::cpu, "host", 0}, device_memory;
  NodeMemory node_memory{world()};
  Tensor registered{memory, Category::communication, DType::int32, {kArenaBytes / 4}, &node_memory};
  Tensor own{memory, Category::communication, DType::int32, {kArenaBytes / 4}};
  Tensor on_device{device_memory, Category::communication, DType::int32, {kArenaBytes / 4}};

 private:
  size_t used_ = 0;
};

// Calls body(group) with groups of every size from 1 to all ranks: the first k ranks are one group
// and the others another, for every k.
template <class Body>
void for_groups(Communicator& all, Body body) {
  for (size_t k = 1; k <= all.size(); ++k) {
    const auto group = all.split(all.rank() < k ? 0 : 1);
    body(*group);
  }
}

// x in T: by way of double, from which every T can be made.
template <class T, class X>
T number(X x) {
  if constexpr (std::is_same_v<T, X>) return x;
  return static_cast<T>(static_cast<double>(x));
}

template <class T, class Value>
void fill(const TensorView& view, Value value_at) {
  std::vector<T> x(view.num_elements());
  for (size_t i = 0; i < x.size(); ++i) x[i] = number<T>(value_at(i));
  to_device(view, x);
}

// Every element is exactly what `expected` says.
template <class T, class Expected>
void require_elements(const TensorView& view, Expected expected) {
  const std::vector<T> x = to_host<T>(view);
  for (size_t i = 0; i < x.size(); ++i) {
    const T want = number<T>(expected(i));
    if (!(x[i] == want)) FAIL("element " << i << " is " << x[i] << ", not " << want);
  }
  SUCCEED();
}

// What the group's ranks sum up to at i, or their maximum. `first` is the group's first rank.
inline int reduced(Reduction reduction, size_t first, size_t size, size_t i) {
  int result = value(first, i);
  for (size_t r = 1; r < size; ++r) {
    const int x = value(first + r, i);
    result = reduction == Reduction::sum ? result + x : std::max(result, x);
  }
  return result;
}

}  // namespace ladder::testing
