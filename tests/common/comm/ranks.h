// What the tests of collectives share: groups of every size, buffers in every kind of memory, exact
// inputs.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <initializer_list>
#include <memory>
#include <string>

#include "common/comm/mpi_communicator.h"
#include "kernels/runtime/tensor.h"
#include "tests/mpi_main.h"

namespace ladder::testing {

// Where the buffers of a call lie.
enum class Place {
  registered,    // the same offset on every rank
  shifted,       // registered, at another offset on every rank, aligned to an element only
  unregistered,  // in the rank's own memory
  mixed          // registered on every second rank
};
inline constexpr Place kPlaces[] = {Place::registered, Place::shifted, Place::unregistered,
                                    Place::mixed};
inline const char* name_of(Place place) {
  const char* const names[] = {"registered", "shifted", "unregistered", "mixed"};
  return names[static_cast<int>(place)];
}

// Small whole numbers: every sum is exact in every dtype, so results are compared bit by bit.
inline int value(size_t rank, size_t i) {
  return static_cast<int>((rank * 7 + i * 3 + i / 50) % 101) - 50;
}

// What one rank needs to take part.
struct Ranks {
  Ranks() {
    guard_everything(own.view());
    guard_everything(registered.view());
  }

  // n elements of T in the given place, between guards; the next call continues behind them.
  template <class T>
  TensorView take(Place place, size_t n) {
    const size_t rank = world().rank();
    const bool shared = place == Place::mixed ? rank % 2 == 0 : place != Place::unregistered;
    used_ = (used_ + 63) / 64 * 64 + 64 + (place == Place::shifted ? (3 + rank) * sizeof(T) : 0);
    const Tensor& arena = shared ? registered : own;
    check(used_ + n * sizeof(T) + 64 <= arena.view().num_bytes(), "the test's arena is too small");
    char* const begin = static_cast<char*>(arena.view().data()) + used_;
    used_ += n * sizeof(T);
    return TensorView(begin, dtype_of<T>, DeviceType::cpu, {n});
  }
  // Ends a case: fails if an element outside of what was taken has been written by this rank or,
  // once all ranks of the group have ended it, by a peer. Everything is guard again.
  void release(Communicator& group, std::initializer_list<TensorView> taken) {
    group.barrier();
    for (const TensorView& view : taken) {
      char* const begin = static_cast<char*>(view.data());
      for (size_t i = 1; i <= 32; ++i) {
        if (begin[-static_cast<ptrdiff_t>(i)] != kGuard ||
            begin[view.num_bytes() + i - 1] != kGuard)
          FAIL("an element beside the buffer was written");
      }
      std::fill_n(begin, view.num_bytes(), kGuard);
    }
    used_ = 0;
    group.barrier();
  }

  static void guard_everything(const TensorView& view) {
    std::fill_n(static_cast<char*>(view.data()), view.num_bytes(), kGuard);
  }

  static constexpr char kGuard = 0x5b;
  static constexpr size_t kArenaBytes = size_t{1} << 20;
  Stream stream{DeviceType::cpu};
  Memory memory{DeviceType::cpu, "device", 0};
  NodeMemory node_memory{world()};
  Tensor registered{memory, Category::communication, DType::int32, {kArenaBytes / 4}, &node_memory};
  Tensor own{memory, Category::communication, DType::int32, {kArenaBytes / 4}};

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

template <class T, class Value>
void fill(const TensorView& view, Value value_at) {
  T* const x = view.as<T>();
  for (size_t i = 0; i < view.num_elements(); ++i) x[i] = static_cast<T>(value_at(i));
}

// Every element is exactly what `expected` says.
template <class T, class Expected>
void require_elements(const TensorView& view, Expected expected) {
  const T* const x = view.as<T>();
  for (size_t i = 0; i < view.num_elements(); ++i) {
    const T want = static_cast<T>(expected(i));
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
