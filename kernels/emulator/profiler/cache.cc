#include "kernels/emulator/profiler/cache.h"

#include <algorithm>
#include <list>
#include <unordered_map>

namespace ladder::emulator {
namespace {

// Least recently used sectors go first.
class Cache {
 public:
  explicit Cache(size_t sectors) : capacity_(sectors) {}

  void access(std::uint64_t sector, bool writes) {
    auto found = positions_.find(sector);
    if (found == positions_.end()) {
      moved_ += writes ? 0 : 1;  // a write does not read what it overwrites
      used_.push_front({sector, false});
      found = positions_.emplace(sector, used_.begin()).first;
    } else {
      used_.splice(used_.begin(), used_, found->second);
    }
    found->second->is_dirty = found->second->is_dirty || writes;
    while (used_.size() > std::max<size_t>(capacity_, 1)) drop_last();
  }
  // Empties the cache, and returns the sectors that have been moved.
  double finish() {
    while (!used_.empty()) drop_last();
    return moved_;
  }

 private:
  struct Sector {
    std::uint64_t number;
    bool is_dirty;
  };
  void drop_last() {
    moved_ += used_.back().is_dirty ? 1 : 0;
    positions_.erase(used_.back().number);
    used_.pop_back();
  }

  size_t capacity_;
  double moved_ = 0;
  std::list<Sector> used_;  // the last used one first
  std::unordered_map<std::uint64_t, std::list<Sector>::iterator> positions_;
};

}  // namespace

MemoryTraffic traffic_with_cache(std::span<const BlockTrace> blocks, size_t at_once,
                                 size_t sectors) {
  constexpr size_t kTurn = 64;  // accesses of a thread block before the next one has its turn
  struct Running {
    const BlockTrace* trace;
    size_t next;
  };
  const size_t resident = std::min(at_once, blocks.size());
  Cache cache(resident < at_once ? sectors * resident / at_once : sectors);
  std::vector<Running> running;
  size_t begun = 0;
  while (begun < resident) running.push_back({&blocks[begun++], 0});
  MemoryTraffic traffic;
  while (!running.empty()) {
    for (Running& block : running) {
      const size_t end = std::min(block.next + kTurn, block.trace->size());
      for (; block.next < end; ++block.next) {
        const std::uint64_t access = (*block.trace)[block.next];
        cache.access(access / 2, access % 2 == 1);
        traffic.asked += 1;
      }
      if (end == block.trace->size() && begun < blocks.size()) block = {&blocks[begun++], 0};
    }
    std::erase_if(running, [](const Running& block) { return block.next == block.trace->size(); });
  }
  traffic.moved = cache.finish();
  return traffic;
}

}  // namespace ladder::emulator
