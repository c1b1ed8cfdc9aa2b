// Counts what kernels do, launch by launch: what a profiler reads from a GPU's counters.
//
// The emulator's threads run one after the other, and the accesses of each are noted. Those that
// the 32 threads of a warp make at the same place of the program, each for the n-th time since the
// last barrier, with the same n, are one instruction of the warp. From its addresses follow
//
// - the sectors of 32 bytes that global memory must move for it. 32 threads that read floats side
//   by side need 4 sectors; if the floats lie 32 bytes apart, they need 32;
//
// - the cycles that shared memory takes. It has 32 banks of 4 bytes, and gives one word of each
//   bank in a cycle: threads that want different words of the same bank wait for each other.
//
// What a sector costs depends on the GPU's cache (L2). If it is given, some of the first thread
// blocks show what memory moves (cache.h). Else nothing is cached, and a sector that two
// instructions read is moved twice.
//
// Accesses are seen only where kernels are compiled with hooks (access.h).
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/emulator/access.h"
#include "kernels/emulator/profiler/cache.h"
#include "kernels/emulator/profiler/footprint.h"

namespace ladder::emulator {

// Sums over threads or warps.
struct Counts {
  double instructions = 0;         // of warps, that access global or shared memory
  double global_sectors = 0;       // that the cache is asked for
  double memory_sectors = 0;       // of these, moved from or to memory
  double shared_cycles = 0;        // that shared memory took
  double shared_least_cycles = 0;  // that it would have taken without conflicts
  double fused_flops = 0;          // multiplications and additions of std::fma
  double tensor_flops = 0;         // multiplications and additions of mma instructions

  Counts& operator+=(const Counts& other);
  Counts& operator*=(double factor);
};

// A launch of a kernel.
struct Profile {
  std::string name;
  double blocks = 0, observed = 0;  // thread blocks of the launch, and those that ran
  size_t threads = 0;               // of a thread block
  size_t shared_bytes = 0;          // dynamic, and those of __shared__ variables that were accessed
  Counts counts{};                  // of all thread blocks, from those that ran
};

// A GPU's cache, which all its multiprocessors share.
struct GpuCache {
  size_t bytes = 0;  // 0: nothing is cached
  // Returns how many thread blocks of a launch the GPU holds at once.
  std::function<size_t(const Profile&)> blocks_at_once = {};
};

// If launches are sampled (launch.h), everything is counted in the sample, and stands for all
// thread blocks. Memory's fraction is then found by the first thread blocks: twice as many as run
// at once, or fewer if they access very much. Launches of a kernel with the same shape share what
// was found.
class Profiler final : public Observer {
 public:
  explicit Profiler(GpuCache cache = {});
  ~Profiler() override;

  // What ran since the last call, in order.
  std::vector<Profile> take();

  void launch_begins(const KernelCall& call) override;
  void launch_ends() override;
  void block_begins(const uint3& block) override;
  void block_ends() override;
  size_t sample_ends() override;
  void access(const Access& access) override;
  void block_barrier() override;
  void warp_operation(WarpOperation operation, size_t first, unsigned mask) override;
  void fused_multiply_add() override;

 private:
  struct Note {  // an access of a thread to global or shared memory
    const void* location;
    std::uintptr_t address;
    std::uint32_t bytes;
    AccessKind kind;
    bool global;
    std::uint32_t lane;
    std::uint32_t turn = 0;  // how often the thread has been there since the last barrier
  };
  using WarpNotes = std::array<std::vector<Note>, 32>;  // of each lane, in its order
  void count_instructions();
  void count_warp(WarpNotes& notes);
  void count_diverged(WarpNotes& notes);
  void count_instruction(const std::vector<Note>& notes);
  void count_global(const std::vector<Note>& notes);
  double find_moved_part();

  GpuCache cache_;
  std::vector<Profile> profiles_;
  bool counts_ = true, traces_blocks_ = true;  // for the running thread block
  std::vector<WarpNotes> notes_;               // of each warp of the running thread block
  std::vector<Note> instruction_;
  std::vector<std::uintptr_t> sectors_;
  std::vector<BlockTrace> traces_;
  Footprint static_shared_;
  std::string launch_;                         // the kernel and its shape
  std::map<std::string, double> moved_parts_;  // of launches: memory's fraction of sectors
};

}  // namespace ladder::emulator
