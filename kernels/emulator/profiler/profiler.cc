#include "kernels/emulator/profiler/profiler.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "kernels/emulator/arena.h"
#include "kernels/emulator/launch.h"
#include "kernels/emulator/profiler/shared_cycles.h"
#include "kernels/emulator/stacks.h"
#include "kernels/emulator/thread.h"
#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

double number(size_t count) { return static_cast<double>(count); }

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

Profiler::Profiler(GpuCache cache) : cache_(std::move(cache)) { attach(*this); }
Profiler::~Profiler() { detach(*this); }

std::vector<Profile> Profiler::take() { return std::exchange(profiles_, {}); }

void Profiler::launch_begins(const KernelCall& call) {
  const size_t threads = size_t{call.block.x} * call.block.y * call.block.z;
  profiles_.push_back({.name = std::string(call.name),
                       .blocks = number(size_t{call.grid.x} * call.grid.y * call.grid.z),
                       .threads = threads,
                       .shared_bytes = call.shared_bytes});
  notes_.assign((threads + kWarpSize - 1) / kWarpSize, {});
  traces_.clear();
  counts_ = true;
  traces_blocks_ = !launches_are_sampled();
  launch_ = concat(call.name, " ", call.grid.x, " ", call.grid.y, " ", call.grid.z, " ", threads,
                   " ", call.shared_bytes);
}

void Profiler::launch_ends() {
  Profile& profile = profiles_.back();
  const size_t static_shared_bytes = static_shared_.take();
  if (counts_) profile.shared_bytes += static_shared_bytes;  // else sample_ends() has added them
  if (profile.observed > 0) profile.counts *= profile.blocks / profile.observed;
  if (!traces_.empty()) moved_parts_[launch_] = find_moved_part();
  profile.counts.memory_sectors = profile.counts.global_sectors * moved_parts_[launch_];
}

double Profiler::find_moved_part() {
  const std::vector<BlockTrace> traces = std::exchange(traces_, {});
  if (cache_.bytes == 0) return 1;
  const size_t at_once = cache_.blocks_at_once(profiles_.back());
  const MemoryTraffic traffic = traffic_with_cache(traces, at_once, cache_.bytes / kSectorBytes);
  return traffic.asked == 0 ? 0 : traffic.moved / traffic.asked;
}

void Profiler::block_begins(const uint3&) {
  if (traces_blocks_) traces_.emplace_back();
}

void Profiler::block_ends() {
  count_instructions();
  if (counts_) profiles_.back().observed += 1;
}

size_t Profiler::sample_ends() {
  constexpr double kMostSectors = 6e6;
  counts_ = false;
  profiles_.back().shared_bytes += static_shared_.take();
  if (moved_parts_.contains(launch_)) return 0;
  traces_blocks_ = true;
  const Profile& profile = profiles_.back();
  const double each = profile.counts.global_sectors / profile.observed;
  const double affordable = std::max(1.0, kMostSectors / std::max(each, 1.0));
  const double at_once = cache_.bytes == 0 ? 1 : number(cache_.blocks_at_once(profile));
  return static_cast<size_t>(std::min({profile.blocks, 2 * at_once, affordable}));
}

void Profiler::block_barrier() { count_instructions(); }

void Profiler::access(const Access& access) {
  const Space space = space_of(access.address);
  if (space == Space::other) return;
  const size_t lane = access.thread % kWarpSize;
  notes_[access.thread / kWarpSize][lane].push_back(
      {access.return_address, access.address, static_cast<std::uint32_t>(access.bytes), access.kind,
       space == Space::global, static_cast<std::uint32_t>(lane)});
  if (space == Space::shared && is_static(reinterpret_cast<const char*>(access.address))) {
    static_shared_.insert(access.address, access.bytes);
  }
}

void Profiler::fused_multiply_add() {
  if (counts_) profiles_.back().counts.fused_flops += 2;
}

void Profiler::warp_operation(WarpOperation operation, size_t, unsigned) {
  constexpr double kFlops = 2 * 16 * 8 * 16;  // of m16n8k16
  if (counts_ && operation >= WarpOperation::mma_bf16) {
    profiles_.back().counts.tensor_flops += kFlops;
  }
}

void Profiler::count_instructions() {
  for (WarpNotes& notes : notes_) count_warp(notes);
}

// Threads that have been at the same places in the same order made the same instructions.
void Profiler::count_warp(WarpNotes& notes) {
  const auto same_location = [](const Note& a, const Note& b) { return a.location == b.location; };
  const bool is_uniform = std::ranges::all_of(notes, [&](const std::vector<Note>& lane) {
    return std::ranges::equal(lane, notes[0], same_location);
  });
  if (is_uniform) {
    for (size_t i = 0; i < notes[0].size(); ++i) {
      instruction_.clear();
      for (const std::vector<Note>& lane : notes) instruction_.push_back(lane[i]);
      count_instruction(instruction_);
    }
  } else {
    count_diverged(notes);
  }
  for (std::vector<Note>& lane : notes) lane.clear();
}

// Numbers each thread's visits of each location, and brings together what is one instruction.
void Profiler::count_diverged(WarpNotes& notes) {
  std::vector<Note> all;
  for (const std::vector<Note>& lane : notes) all.insert(all.end(), lane.begin(), lane.end());
  const auto by_thread = [](const Note& a, const Note& b) {
    return std::tie(a.location, a.lane) < std::tie(b.location, b.lane);
  };
  std::ranges::stable_sort(all, by_thread);
  for (size_t i = 1; i < all.size(); ++i) {
    const bool again = !by_thread(all[i - 1], all[i]);
    all[i].turn = again ? all[i - 1].turn + 1 : 0;
  }
  std::ranges::sort(all, [](const Note& a, const Note& b) {
    return std::tie(a.turn, a.location, a.lane) < std::tie(b.turn, b.location, b.lane);
  });
  for (size_t begin = 0, end; begin < all.size(); begin = end) {
    end = begin + 1;
    while (end < all.size() && all[end].location == all[begin].location &&
           all[end].turn == all[begin].turn) {
      ++end;
    }
    instruction_.assign(all.begin() + static_cast<std::ptrdiff_t>(begin),
                        all.begin() + static_cast<std::ptrdiff_t>(end));
    count_instruction(instruction_);
  }
}

void Profiler::count_instruction(const std::vector<Note>& notes) {
  Counts& counts = profiles_.back().counts;
  if (counts_) counts.instructions += 1;
  if (notes.front().global) return count_global(notes);
  if (!counts_) return;
  std::vector<SharedAccess> accesses;
  for (const Note& note : notes) accesses.push_back({note.lane, note.address, note.bytes});
  const SharedCycles cycles = shared_cycles(accesses);
  counts.shared_cycles += number(cycles.taken);
  counts.shared_least_cycles += number(cycles.least);
}

void Profiler::count_global(const std::vector<Note>& notes) {
  Counts& counts = profiles_.back().counts;
  sectors_.clear();
  for (const Note& note : notes) {
    const std::uintptr_t last = (note.address + note.bytes - 1) / kSectorBytes;
    for (std::uintptr_t at = note.address / kSectorBytes; at <= last; ++at) sectors_.push_back(at);
  }
  std::ranges::sort(sectors_);
  const auto repeated = std::ranges::unique(sectors_);
  sectors_.erase(repeated.begin(), repeated.end());
  if (counts_) counts.global_sectors += number(sectors_.size());
  if (!traces_blocks_) return;
  const bool writes = notes.front().kind != AccessKind::read;
  for (const std::uintptr_t sector : sectors_) {
    traces_.back().push_back(2 * sector + (writes ? 1 : 0));
  }
}

}  // namespace ladder::emulator
