// Finds work on different streams that accesses the same memory in an order which nothing decides:
// the event is missing, or the host's wait. It asks what CUDA promises (work_order.h), not what
// happened, so it finds the mistake in every order in which the streams may have run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/emulator/access.h"
#include "kernels/emulator/checker/pinned_guard.h"
#include "kernels/emulator/work_order.h"

namespace ladder::emulator {

class StreamChecker : public Observer {
 public:
  StreamChecker();

  void released(const void* begin, size_t bytes) override;
  void written(const void* begin, size_t bytes) override;
  void read(const void* begin, size_t bytes) override;
  void copied(const void* to, const void* from, size_t bytes) override;
  void work_is(std::string_view what) override;
  void launch_begins(const KernelCall& call) override;
  void access(const Access& access) override;

  void host_copy_given(const void* begin, size_t bytes, bool writes, std::uint32_t work) override;
  void host_copy_begins() override { pinned_.open(); }
  void host_copy_ends() override { pinned_.close(); }
  void host_released(const void* begin, size_t bytes) override { pinned_.forget(begin, bytes); }
  void host_waited() override;

 private:
  // An access to a word of four bytes by work of a stream.
  struct Touch {
    WorkId work = 0;
    std::uint32_t site = 0;  // the instruction (Mark::site), 0 if the work is no kernel
    std::uint8_t bytes = 0;  // a bit for each byte
    bool is_atomic = false;
  };
  struct Cell {
    Touch write;     // the last write, or atomic operation
    Touch reads[2];  // by different work
  };
  struct Conflict {
    const Touch* earlier = nullptr;
    bool earlier_writes = false;
    std::uintptr_t word = 0;
  };

  bool contains(std::uintptr_t address) const { return address - begin_ < bytes_; }
  bool comes_before(WorkId earlier);
  // Notes that the running work touches these bytes, and returns the first access that nothing
  // orders with it.
  Conflict touch(std::uintptr_t begin, size_t bytes, AccessKind kind, std::uint32_t site);
  bool collides(const Touch& earlier, const Touch& now);
  void remember_read(Cell& cell, const Touch& now);
  void touch_range(const void* begin, size_t bytes, AccessKind kind);
  std::string describe(const Conflict& conflict) const;
  std::string name_of(const Touch& touch) const;

  std::uintptr_t begin_;
  size_t bytes_;
  Cell* cells_;                          // by word; the pages come when they are first written
  size_t num_touched_ = 0;               // words, since the tables were last given back
  WorkId known_for_ = 0, known_ = 0;     // `known_` comes before the running work `known_for_`
  std::vector<std::string_view> names_;  // of kernels and other work, by the work's number
  PinnedGuard pinned_;
};

}  // namespace ladder::emulator
