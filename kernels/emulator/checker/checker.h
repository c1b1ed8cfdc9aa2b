// Finds in kernels what NVIDIA's compute-sanitizer finds on a GPU: accesses to memory that is not
// there, reads of what nobody wrote, and threads that access the same memory without an order
// between them. The first mistake ends the launch with an Error. See the emulator's README.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/emulator/access.h"
#include "kernels/emulator/checker/debug_info.h"
#include "kernels/emulator/checker/shadow.h"
#include "kernels/emulator/checker/thread_order.h"

namespace ladder::emulator {

class Checker : public Observer {
 public:
  Checker();

  void allocated(const void* begin, size_t bytes) override;
  void released(const void* begin, size_t bytes) override;
  void written(const void* begin, size_t bytes) override;
  void copied(const void* to, const void* from, size_t bytes) override;

  void launch_begins(const KernelCall& call) override;
  void launch_ends() override;
  void block_begins(const uint3& block) override;
  void block_ends() override;
  void access(const Access& access) override;
  void copy_begins(const void* to, size_t bytes) override;
  void copy_ends(const Access& write) override;
  void fence(bool device, size_t thread) override;
  void block_barrier() override;
  void warp_operation(WarpOperation operation, size_t first, unsigned mask) override;

 private:
  enum class Space { global, dynamic_shared, static_shared, host_variable };
  // A __shared__ variable that a kernel of this process has touched.
  struct Shared {
    Variable variable;
    std::uint32_t touched_in;  // the last launch that did
  };

  void check(Shadow& shadow, Space space, const Access& access);
  void check_race(Cell& cell, Space space, const Access& access, std::uintptr_t first);
  void check_elsewhere(const Access& access);
  bool find_static(const Access& access);
  void touch(Shared& shared);
  void touch_at(std::uintptr_t address);

  // Messages. stop() prefers to say that the thread has read what nobody had written. `first` is
  // the first byte, or its word, with which something is wrong.
  std::string location_in(Space space, std::uintptr_t address) const;
  std::string describe(Space space, const Access& access) const;
  [[noreturn]] void stop_missing(Space space, const Access& access, std::uintptr_t first);
  void note_undefined(Space space, const Access& access, std::uintptr_t first);
  void report_undefined();
  [[noreturn]] void stop(const std::string& why);
  [[noreturn]] void stop_race(Space space, const Access& access, std::uintptr_t first,
                              const Mark& mark, bool mark_writes);

  Shadow global_, dynamic_, static_;
  std::uintptr_t dynamic_begin_ = 0;  // of the running launch
  std::vector<Shared> shared_;
  size_t static_bytes_ = 0;  // of __shared__ variables that the launch has touched
  size_t num_accesses_ = 0;  // of words in global memory, in the running launch
  // The first read of what nobody had written, by a thread of the running thread block. It is
  // reported at the next barrier of the thread block: if another thread writes there until then, it
  // is a race.
  struct Undefined {
    size_t thread;
    std::string message;
  };
  std::optional<Undefined> undefined_;
  ThreadOrder order_;
  const KernelCall* call_ = nullptr;
  std::vector<uint3> blocks_;  // of the launch, in the order in which they ran
};

}  // namespace ladder::emulator
