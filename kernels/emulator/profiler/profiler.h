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
// Nothing is cached: a sector that two instructions read counts twice.
//
// Accesses are seen only where kernels are compiled with hooks (access.h).
#pragma once

#include <string>
#include <vector>

#include "kernels/emulator/access.h"
#include "kernels/emulator/profiler/footprint.h"

namespace ladder::emulator {

inline constexpr size_t kSectorBytes = 32;

// Sums over threads or warps.
struct Counts {
  double instructions = 0;         // of warps, that access global or shared memory
  double partial = 0;              // those of them in which some threads took no part
  double global_bytes = 0;         // asked for by threads
  double global_sectors = 0;       // moved for them
  double footprint_bytes = 0;      // distinct bytes read, plus distinct bytes written
  double shared_cycles = 0;        // that shared memory took
  double shared_least_cycles = 0;  // that it would have taken without conflicts
  double special_functions = 0;    // exp and log
  double fused_flops = 0;          // multiplications and additions of std::fma
  double tensor_flops = 0;         // multiplications and additions of mma instructions

  Counts& operator+=(const Counts& other);
  Counts& operator*=(double factor);
};

// A launch of a kernel, or a product of cuBLAS.
struct Profile {
  enum class Kind { kernel, product };
  Kind kind = Kind::kernel;
  std::string name;
  double blocks = 0, observed = 0;  // thread blocks of the launch, and those that ran
  size_t threads = 0;               // of a thread block
  size_t shared_bytes = 0;          // dynamic, and those of __shared__ variables that were accessed
  Counts counts{};                  // of all thread blocks, from those that ran
  ProductCall product{};
};

class Profiler final : public Observer {
 public:
  Profiler();
  ~Profiler() override;

  // What ran since the last call, in order.
  std::vector<Profile> take();

  void launch_begins(const KernelCall& call) override;
  void launch_ends() override;
  void block_ends() override;
  void access(const Access& access) override;
  void block_barrier() override;
  void warp_operation(WarpOperation operation, size_t first, unsigned mask) override;
  void special_function() override;
  void fused_multiply_add() override;
  void product(const ProductCall& product) override;

 private:
  struct Note {  // an access of a thread to global or shared memory
    const void* place;
    std::uintptr_t address;
    std::uint32_t bytes;
    bool global;
    std::uint32_t turn;  // how often the thread has been there since the last barrier
    std::uint32_t lane;
  };
  void count_instructions();
  void count_warp(std::vector<Note>& notes);
  void count_instruction(const Note* begin, const Note* end);

  std::vector<Profile> profiles_;
  std::vector<std::vector<Note>> notes_;  // of each warp of the running thread block
  Footprint read_, written_, static_shared_;
};

}  // namespace ladder::emulator
