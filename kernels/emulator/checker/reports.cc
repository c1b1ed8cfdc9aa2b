// What the checker says when it has found a mistake.
#include <algorithm>

#include "kernels/emulator/arena.h"
#include "kernels/emulator/checker/checker.h"
#include "kernels/emulator/device_model.h"
#include "kernels/emulator/host_state.h"
#include "kernels/emulator/launch.h"
#include "kernels/emulator/thread.h"
#include "kernels/runtime/check.h"

extern "C" char __executable_start[];  // the linker defines it

namespace ladder::emulator {
namespace {

const char* present(AccessKind kind) {
  const char* const names[] = {"reads", "writes", "changes atomically"};
  return names[static_cast<int>(kind)];
}

std::string bytes_text(size_t bytes) { return concat(bytes, bytes == 1 ? " byte" : " bytes"); }

// Returns the index of a thread in its thread block from its number, x first.
uint3 thread_index(size_t thread, const dim3& block) {
  const size_t row = thread / block.x;
  return {static_cast<unsigned>(thread % block.x), static_cast<unsigned>(row % block.y),
          static_cast<unsigned>(row / block.y)};
}

// Says where an address is among the allocations of the device.
std::string global_location(std::uintptr_t address) {
  const auto* const at = reinterpret_cast<const char*>(address);
  const auto before = Arena::instance().allocation_before(at);
  if (before.empty()) return "before all device memory that is allocated";
  const char* const end = before.data() + before.size();
  const auto what =
      concat("the ", bytes_text(before.size()), " at ", static_cast<const void*>(before.data()));
  if (at >= end) return concat(bytes_text(static_cast<size_t>(at - end)), " behind ", what);
  return concat("byte ", at - before.data(), " of ", what);
}

}  // namespace

std::string Checker::location_in(Space space, std::uintptr_t address) const {
  switch (space) {
    case Space::global:
      return global_location(address);
    case Space::dynamic_shared:
      return concat("byte ", static_cast<std::intptr_t>(address - dynamic_begin_), " of the ",
                    bytes_text(call_->shared_bytes), " of dynamic shared memory");
    case Space::static_shared:
    case Space::host_variable:
      break;
  }
  for (const auto& [variable, launch] : shared_) {
    if (address - variable.begin < variable.bytes) {
      return concat("byte ", address - variable.begin, " of the ", bytes_text(variable.bytes),
                    " of ", variable.name);
    }
  }
  return "no __shared__ variable";
}

std::string Checker::describe(Space space, const Access& access) const {
  const char* const memory = space == Space::global          ? " of global memory"
                             : space == Space::host_variable ? " of memory"
                                                             : " of shared memory";
  return concat(present(access.kind), " ", bytes_text(access.bytes), memory, " at ",
                source_line(access.return_address));
}

void Checker::stop_missing(Space space, const Access& access, std::uintptr_t first) {
  stop(concat("out of bounds: ", describe(space, access), ": ", location_in(space, first)));
}

void Checker::note_undefined(Space space, const Access& access, std::uintptr_t first) {
  if (undefined_) return;
  undefined_ = {access.thread, concat("uninitialized: ", describe(space, access),
                                      ", which nobody has written: ", location_in(space, first))};
}

void Checker::report_undefined() {
  if (!undefined_) return;
  note_mistake(undefined_->thread, undefined_->message);
  undefined_.reset();
}

// What a thread does wrong after it has read garbage may come from that.
void Checker::stop(const std::string& why) {
  report_undefined();
  stop_thread(why);
}

void Checker::stop_race(Space space, const Access& access, std::uintptr_t first, const Mark& mark,
                        bool mark_writes) {
  const char* const did = mark_writes ? "wrote" : mark.atomic() ? "atomically changed" : "read";
  const bool here = order_.in_block(mark);
  const std::string block =
      here ? std::string() : concat(" of block ", text_of(blocks_[order_.block_number(mark)]));
  stop_thread(concat("race: ", describe(space, access), ", ", location_in(space, first),
                     "; thread ", text_of(thread_index(mark.thread(), call_->block)), block, " ",
                     did, " it at ", source_line(__executable_start + mark.site()),
                     here ? ", and no barrier orders the two"
                          : ", and nothing orders the thread blocks of a launch"));
}

// Notes that the launch uses the variable. Its bytes and those of dynamic shared memory are one
// memory on a GPU.
void Checker::touch(Shared& shared) {
  if (shared.touched_in == order_.launch()) return;
  shared.touched_in = order_.launch();
  static_bytes_ += shared.variable.bytes;
  const bool opted_in = shared_limit(call_->function) > kSharedBytes;
  const size_t limit = opted_in ? device_model().shared_bytes_optin : kSharedBytes;
  if (static_bytes_ + call_->shared_bytes <= limit) return;
  stop_thread(concat("too much shared memory: ", bytes_text(static_bytes_),
                     " of __shared__ variables and ", bytes_text(call_->shared_bytes),
                     " of dynamic shared memory, where the device allows ", limit));
}

void Checker::touch_at(std::uintptr_t address) {
  for (Shared& shared : shared_) {
    if (address - shared.variable.begin < shared.variable.bytes) return touch(shared);
  }
}

}  // namespace ladder::emulator
