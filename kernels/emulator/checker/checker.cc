#include "kernels/emulator/checker/checker.h"

#include <algorithm>
#include <bit>

#include "kernels/emulator/arena.h"
#include "kernels/emulator/checker/stream_checker.h"
#include "kernels/emulator/device.h"
#include "kernels/emulator/host_state.h"
#include "kernels/emulator/launch.h"
#include "kernels/emulator/stacks.h"
#include "kernels/runtime/check.h"

// The linker defines these: where the program's variables without initial values are.
extern "C" char __bss_start[], _end[], __executable_start[];

namespace ladder::emulator {
namespace {

// After a launch that has accessed so many words, the tables of accesses are given back.
constexpr size_t kManyAccesses = 4 << 20;

std::uintptr_t number(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

std::uint32_t site_of(const void* return_address) {
  return static_cast<std::uint32_t>(number(return_address) - number(__executable_start)) &
         0x7fffffff;
}

bool is_coordinate(std::uintptr_t address) {
  return address - number(&coordinates) < sizeof coordinates;
}

// Calls f(word, mask) for each word that the access touches, with a bit for each of its bytes.
template <class Function>
void for_each_word(const Access& access, Function f) {
  constexpr size_t kWord = Shadow::kWord;
  const std::uintptr_t end = access.address + access.bytes;
  for (std::uintptr_t word = access.address / kWord * kWord; word < end; word += kWord) {
    const size_t from = std::max(access.address, word) - word, to = std::min(end - word, kWord);
    f(word, ((1u << (to - from)) - 1) << from);
  }
}

// Returns the access that conflicts with one of this kind by this thread, if there is one: another
// thread's, one of them writes, they are not both atomic, and nothing orders them.
const Mark* conflict(const Cell& cell, const ThreadOrder& order, bool one_block, AccessKind kind,
                     size_t thread) {
  const auto unordered = [&](const Mark& mark) {
    return (one_block ? order.in_block(mark) : order.in_launch(mark)) &&
           !order.ordered(mark, thread);
  };
  if (unordered(cell.write)) return &cell.write;
  for (const Mark& mark : cell.others) {
    const bool harmless = mark.atomic() ? kind == AccessKind::atomic : kind == AccessKind::read;
    if (!harmless && unordered(mark)) return &mark;
  }
  return nullptr;
}

// Remembers an access. Of the reads and atomic operations it keeps the first that is not ordered
// before the present, and the last.
void remember(Cell& cell, const ThreadOrder& order, bool one_block, AccessKind kind,
              const Mark& mark, size_t thread) {
  if (kind == AccessKind::write) {
    cell.write = mark;
    return;
  }
  Mark& first = cell.others[0];
  const bool old = one_block ? !order.in_block(first) : !order.in_launch(first);
  const bool replace = old || (order.ordered(first, thread) && (mark.atomic() || !first.atomic()));
  (replace ? first : cell.others[1]) = mark;
}

}  // namespace

Checker::Checker() {
  const auto device = Arena::instance().addresses(), shared = dynamic_shared_addresses();
  global_ = Shadow(number(device.data()), device.size());
  dynamic_ = Shadow(number(shared.data()), shared.size());
  const std::uintptr_t begin = number(__bss_start) / Shadow::kWord * Shadow::kWord;
  static_ = Shadow(begin, number(_end) - begin);
}

void Checker::allocated(const void* begin, size_t bytes) {
  global_.set(number(begin), bytes, ByteState::undefined);
}

void Checker::released(const void* begin, size_t bytes) {
  global_.set(number(begin), bytes, ByteState::missing);
}

void Checker::written(const void* begin, size_t bytes) {
  if (global_.contains(number(begin))) global_.set(number(begin), bytes, ByteState::written);
}

void Checker::copied(const void* to, const void* from, size_t bytes) {
  if (!global_.contains(number(from))) return written(to, bytes);
  if (global_.contains(number(to))) global_.copy(number(to), number(from), bytes);
}

void Checker::launch_begins(const KernelCall& call) {
  call_ = &call;
  order_.launch_begins();
  blocks_.clear();
  static_bytes_ = num_accesses_ = 0;
}

void Checker::launch_ends() {
  if (num_accesses_ > kManyAccesses) global_.forget_accesses();
  dynamic_.set(dynamic_begin_, call_->shared_bytes, ByteState::missing);
}

void Checker::block_begins(const uint3& block) {
  order_.block_begins();
  undefined_.reset();
  blocks_.push_back(block);
  dynamic_begin_ = number(dynamic_shared());
  dynamic_.set(dynamic_begin_, call_->shared_bytes, ByteState::undefined);
  for (const Shared& shared : shared_) {
    static_.set(shared.variable.begin, shared.variable.bytes, ByteState::undefined);
  }
}

void Checker::copy_begins(const void* to, size_t bytes) {
  for (Shadow* shadow : {&dynamic_, &static_}) {
    if (shadow->contains(number(to))) shadow->set(number(to), bytes, ByteState::undefined);
  }
}

void Checker::copy_ends(const Access& write) { access(write); }

void Checker::fence(bool device, size_t thread) {
  if (device) order_.device_fence(thread);
}

void Checker::block_ends() { report_undefined(); }

void Checker::block_barrier() {
  report_undefined();
  order_.block_barrier();
}

void Checker::warp_operation(WarpOperation operation, size_t first, unsigned mask) {
  if (operation == WarpOperation::syncwarp) order_.warp_barrier(first, mask);
}

void Checker::access(const Access& access) {
  if (global_.contains(access.address)) {
    ++num_accesses_;
    check(global_, Space::global, access);
  } else if (dynamic_.contains(access.address)) {
    check(dynamic_, Space::dynamic_shared, access);
  } else if (static_.contains(access.address)) {
    if (is_coordinate(access.address)) return;
    const size_t byte = access.address % Shadow::kWord;
    if ((static_.states(access.address) >> byte & 1) != 0 || find_static(access)) {
      check(static_, Space::static_shared, access);
    }
  } else {
    check_elsewhere(access);
  }
}

void Checker::check(Shadow& shadow, Space space, const Access& access) {
  if (access.kind == AccessKind::atomic) order_.atomic(access.thread, access.address);
  const bool reads = access.kind != AccessKind::write;
  for_each_word(access, [&](std::uintptr_t word, unsigned mask) {
    std::uint8_t& states = shadow.states(word);
    const unsigned missing = mask & ~unsigned{states}, undefined = mask & ~(states >> 4u);
    if (missing != 0) stop_missing(space, access, word + std::countr_zero(missing));
    if (reads && undefined != 0) note_undefined(space, access, word + std::countr_zero(undefined));
    if (space == Space::static_shared && states >> 4 == 0) touch_at(word);
    if (access.kind != AccessKind::read) states |= static_cast<std::uint8_t>(mask << 4);
    Cell& cell = shadow.cell(word);
    if (mask == 0xf && cell.split_in != order_.launch()) {
      return check_race(cell, space, access, word);
    }
    Cell* const bytes = shadow.byte_cells(word);
    if (cell.split_in != order_.launch()) {
      cell.split_in = order_.launch();
      std::fill_n(bytes, Shadow::kWord, cell);
    }
    for (size_t i = 0; i < Shadow::kWord; ++i) {
      if ((mask >> i & 1) != 0) check_race(bytes[i], space, access, word + i);
    }
  });
}

void Checker::check_race(Cell& cell, Space space, const Access& access, std::uintptr_t first) {
  const bool one_block = space != Space::global;
  const Mark* const other = conflict(cell, order_, one_block, access.kind, access.thread);
  if (other != nullptr) stop_race(space, access, first, *other, other == &cell.write);
  const Mark mark =
      order_.mark(access.thread, site_of(access.return_address), access.kind == AccessKind::atomic);
  remember(cell, order_, one_block, access.kind, mark, access.thread);
}

// Looks at an access to none of the memories of kernels. Constants and the kernel's arguments are
// fine, and so is pinned memory of the host.
void Checker::check_elsewhere(const Access& access) {
  const void* const pointer = reinterpret_cast<const void*>(access.address);
  if (Arena::instance().contains(pointer)) {  // what tests reserve there has no tables
    if (!Arena::instance().holds(pointer, access.bytes)) {
      stop_missing(Space::global, access, access.address);
    }
  } else if (access.kind != AccessKind::read && !is_pinned(pointer)) {
    stop(concat("out of bounds: ", describe(Space::global, access),
                ", which is neither device memory nor pinned memory of the host"));
  }
}

// Finds the variable of the program that the access touches. Returns whether it is a __shared__
// one: those are the static variables of functions.
bool Checker::find_static(const Access& access) {
  const std::optional<Variable> variable = variable_at(access.address);
  if (!variable) stop_missing(Space::static_shared, access, access.address);
  if (!variable->in_function) {
    stop(concat("out of bounds: ", describe(Space::host_variable, access),
                ", which is the host's variable ", variable->name));
  }
  static_.set(variable->begin, variable->bytes, ByteState::undefined);
  touch(shared_.emplace_back(*variable, 0));
  return true;
}

namespace {

// Programs that link this file are checked. The checker is never destroyed: kernels may run until
// the process ends.
const bool attached = [] {
  attach(*new Checker);
  attach(*new StreamChecker);
  return true;
}();

}  // namespace

}  // namespace ladder::emulator
