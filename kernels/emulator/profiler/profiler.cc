#include "kernels/emulator/profiler/profiler.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "kernels/emulator/arena.h"
#include "kernels/emulator/launch.h"
#include "kernels/emulator/profiler/shared_cycles.h"
#include "kernels/emulator/stacks.h"
#include "kernels/emulator/thread.h"

namespace ladder::emulator {
namespace {

double number(size_t count) { return static_cast<double>(count); }

constexpr double Counts::*kAllCounts[] = {&Counts::instructions,        &Counts::partial,
                                          &Counts::global_bytes,        &Counts::global_sectors,
                                          &Counts::footprint_bytes,     &Counts::shared_cycles,
                                          &Counts::shared_least_cycles, &Counts::special_functions,
                                          &Counts::fused_flops,         &Counts::tensor_flops};
static_assert(std::size(kAllCounts) == sizeof(Counts) / sizeof(double));

enum class Space { global, shared, other };

// The program's variables that live as long as it does lie between these two.
extern "C" char __data_start[], _end[];  // NOLINT: the linker's names

bool is_static(const char* pointer) {
  const auto* const ours = reinterpret_cast<const char*>(&coordinates);  // threadIdx and the like
  return pointer >= __data_start && pointer < _end &&
         (pointer < ours || pointer >= ours + sizeof coordinates);
}

// Shared memory is dynamic, or a static variable of a kernel; a kernel has no other ones.
Space space_of(std::uintptr_t address) {
  const auto* const pointer = reinterpret_cast<const char*>(address);
  if (Arena::instance().contains(pointer)) return Space::global;
  const std::span<const char> dynamic = dynamic_shared_addresses();
  if (pointer >= dynamic.data() && pointer < dynamic.data() + dynamic.size()) return Space::shared;
  return is_static(pointer) ? Space::shared : Space::other;
}

}  // namespace

Counts& Counts::operator+=(const Counts& other) {
  for (double Counts::*const count : kAllCounts) this->*count += other.*count;
  return *this;
}

Counts& Counts::operator*=(double factor) {
  for (double Counts::*const count : kAllCounts) this->*count *= factor;
  return *this;
}

Profiler::Profiler() { attach(*this); }
Profiler::~Profiler() { detach(*this); }

std::vector<Profile> Profiler::take() { return std::exchange(profiles_, {}); }

void Profiler::launch_begins(const KernelCall& call) {
  const size_t threads = size_t{call.block.x} * call.block.y * call.block.z;
  profiles_.push_back({.kind = Profile::Kind::kernel,
                       .name = std::string(call.name),
                       .blocks = number(size_t{call.grid.x} * call.grid.y * call.grid.z),
                       .threads = threads,
                       .shared_bytes = call.shared_bytes});
  notes_.assign((threads + kWarpSize - 1) / kWarpSize, {});
}

void Profiler::launch_ends() {
  Profile& profile = profiles_.back();
  profile.counts.footprint_bytes = number(read_.take() + written_.take());
  profile.shared_bytes += static_shared_.take();
  if (profile.observed > 0) profile.counts *= profile.blocks / profile.observed;
}

void Profiler::block_ends() {
  count_instructions();
  profiles_.back().observed += 1;
}

void Profiler::block_barrier() { count_instructions(); }

void Profiler::access(const Access& access) {
  const Space space = space_of(access.address);
  if (space == Space::other) return;
  notes_[access.thread / kWarpSize].push_back(
      {access.return_address, access.address, static_cast<std::uint32_t>(access.bytes),
       space == Space::global, 0, static_cast<std::uint32_t>(access.thread % kWarpSize)});
  if (space != Space::global) {
    if (is_static(reinterpret_cast<const char*>(access.address))) {
      static_shared_.insert(access.address, access.bytes);
    }
    return;
  }
  if (access.kind != AccessKind::write) read_.insert(access.address, access.bytes);
  if (access.kind != AccessKind::read) written_.insert(access.address, access.bytes);
}

void Profiler::special_function() { profiles_.back().counts.special_functions += 1; }

void Profiler::fused_multiply_add() { profiles_.back().counts.fused_flops += 2; }

void Profiler::warp_operation(WarpOperation operation, size_t, unsigned) {
  constexpr double kFlops = 2 * 16 * 8 * 16;  // of m16n8k16
  const bool is_mma = operation == WarpOperation::mma_bf16 || operation == WarpOperation::mma_fp16;
  if (is_mma) profiles_.back().counts.tensor_flops += kFlops;
}

void Profiler::product(const ProductCall& product) {
  profiles_.push_back({.kind = Profile::Kind::product, .name = "cuBLAS", .product = product});
}

void Profiler::count_instructions() {
  for (std::vector<Note>& notes : notes_) count_warp(notes);
}

// Numbers each thread's visits of each place, and brings together what is one instruction.
void Profiler::count_warp(std::vector<Note>& notes) {
  const auto by_thread = [](const Note& a, const Note& b) {
    return std::tie(a.place, a.lane) < std::tie(b.place, b.lane);
  };
  const auto by_turn = [](const Note& a, const Note& b) {
    return std::tie(a.place, a.turn, a.lane) < std::tie(b.place, b.turn, b.lane);
  };
  std::ranges::stable_sort(notes, by_thread);
  for (size_t i = 1; i < notes.size(); ++i) {
    const bool again = !by_thread(notes[i - 1], notes[i]);
    notes[i].turn = again ? notes[i - 1].turn + 1 : 0;
  }
  std::ranges::sort(notes, by_turn);
  for (size_t begin = 0, end; begin < notes.size(); begin = end) {
    end = begin + 1;
    while (end < notes.size() && notes[end].place == notes[begin].place &&
           notes[end].turn == notes[begin].turn) {
      ++end;
    }
    count_instruction(&notes[begin], &notes[end - 1] + 1);
  }
  notes.clear();
}

void Profiler::count_instruction(const Note* begin, const Note* end) {
  Counts& counts = profiles_.back().counts;
  counts.instructions += 1;
  if (end - begin < static_cast<std::ptrdiff_t>(kWarpSize)) counts.partial += 1;
  if (begin->global) {
    std::vector<std::uintptr_t> sectors;
    for (const Note* note = begin; note != end; ++note) {
      counts.global_bytes += note->bytes;
      const std::uintptr_t last = (note->address + note->bytes - 1) / kSectorBytes;
      for (std::uintptr_t at = note->address / kSectorBytes; at <= last; ++at)
        sectors.push_back(at);
    }
    std::ranges::sort(sectors);
    const auto repeated = std::ranges::unique(sectors);
    counts.global_sectors += number(sectors.size() - repeated.size());
  } else {
    std::vector<SharedAccess> accesses;
    for (const Note* note = begin; note != end; ++note) {
      accesses.push_back({note->lane, note->address, note->bytes});
    }
    const SharedCycles cycles = shared_cycles(accesses);
    counts.shared_cycles += number(cycles.taken);
    counts.shared_least_cycles += number(cycles.least);
  }
}

}  // namespace ladder::emulator
