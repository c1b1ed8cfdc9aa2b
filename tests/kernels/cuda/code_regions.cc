#include "tests/kernels/cuda/code_regions.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <tuple>
#include <vector>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

using emulator::Event, emulator::Events, emulator::of;
using roofline::KernelCode, roofline::Region;

std::string first_word(const std::string& opcode) { return opcode.substr(0, opcode.find('.')); }

// Bytes that a thread's access moves. They stand in the opcode unless they are 4.
double bytes_of(const std::string& opcode) {
  if (opcode.find(".128") != std::string::npos) return 16;
  if (opcode.find(".64") != std::string::npos) return 8;
  static const std::regex short_one(R"(.*\.[US](8|16)\b.*)");
  std::smatch found;
  if (std::regex_match(opcode, found, short_one)) return found[1] == "8" ? 1 : 2;
  return 4;
}

void add_events(Events& events, const std::string& opcode) {
  const std::string word = first_word(opcode);
  if (word == "HMMA") of(events, Event::mma) += 1;
  if (word == "LDG" || word == "LDGSTS") of(events, Event::global_read) += bytes_of(opcode);
  if (word == "STG") of(events, Event::global_write) += bytes_of(opcode);
  if (word == "LDS") of(events, Event::shared_read) += bytes_of(opcode);
  if (word == "LDSM") of(events, Event::shared_read) += 16;
  if (word == "STS" || word == "LDGSTS") of(events, Event::shared_write) += bytes_of(opcode);
  if (word == "SHFL") of(events, Event::shuffle) += 1;
  if (word == "VOTE") of(events, Event::vote) += 1;
  if (word == "BAR") of(events, Event::barrier) += 1;
  if (opcode == "MUFU.EX2" || opcode == "MUFU.LG2") of(events, Event::exponential) += 1;
}

struct BasicBlock {
  double instructions = 0, widest_read = 0, widest_write = 0;  // bytes of global memory
  bool calls = false, may_end = false;                         // a conditional return
  Events events{};
  std::vector<std::size_t> next{};
};

using Blocks = std::vector<BasicBlock>;
using Sets = std::vector<std::set<std::size_t>>;

// Returns for each block those that every path from `entry` to it passes through, itself included.
// Those of blocks that no path leads to are empty.
Sets dominators(const Sets& next, std::size_t entry) {
  std::vector<std::size_t> order = {entry};
  std::vector<bool> seen(next.size());
  Sets before(next.size());
  seen[entry] = true;
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const std::size_t to : next[order[i]]) {
      before[to].insert(order[i]);
      if (!seen[to]) order.push_back(to);
      seen[to] = true;
    }
  }
  Sets all(next.size());
  for (const std::size_t block : order) all[block] = {order.begin(), order.end()};
  all[entry] = {entry};
  for (bool changes = true; changes;) {
    changes = false;
    for (const std::size_t block : order) {
      if (block == entry) continue;
      std::set<std::size_t> common = all[*before[block].begin()];
      for (const std::size_t from : before[block]) {
        std::erase_if(common, [&](std::size_t one) { return !all[from].contains(one); });
      }
      common.insert(block);
      if (common == all[block]) continue;
      all[block] = std::move(common);
      changes = true;
    }
  }
  return all;
}

// The blocks of a kernel, which ones pass through which, and its loops.
class Flow {
 public:
  explicit Flow(Blocks blocks) : blocks_(std::move(blocks)) {
    analyse();
    leave_out_remainders();
    analyse();
    find_loops();
  }

  const Blocks& blocks() const { return blocks_; }
  bool is_reached(std::size_t block) const { return !before_[block].empty(); }
  // The loops that a block is in, by their first blocks, from the outermost one.
  const std::vector<std::size_t>& loops_of(std::size_t block) const { return loops_of_[block]; }
  // Whether the blocks, of one loop, are executed together; a comes first.
  bool are_together(std::size_t a, std::size_t b) const {
    return before_[b].contains(a) && after_[a].contains(b);
  }

 private:
  void analyse() {
    Sets next(blocks_.size() + 1), back(blocks_.size() + 1);  // the last one is after all returns
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      next[i] = {blocks_[i].next.begin(), blocks_[i].next.end()};
      if (next[i].empty() || blocks_[i].may_end) next[i].insert(blocks_.size());
      for (const std::size_t to : next[i]) back[to].insert(i);
    }
    before_ = dominators(next, 0);
    after_ = dominators(back, blocks_.size());
  }

  // The widest access in what follows from a block alone.
  double widest(std::size_t from, double BasicBlock::*access) const {
    double most = 0;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (before_[i].contains(from)) most = std::max(most, blocks_[i].*access);
    }
    return most;
  }

  void leave_out_remainders() {
    constexpr auto kRead = &BasicBlock::widest_read, kWrite = &BasicBlock::widest_write;
    const auto is_less = [](double here, double there) { return 0 < here && here < there; };
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const std::vector<std::size_t> arms = blocks_[i].next;
      if (!is_reached(i) || arms.size() + (blocks_[i].may_end ? 1 : 0) != 2) continue;
      for (const std::size_t arm : arms) {
        if (!before_[arm].contains(i) || after_[i].contains(arm)) continue;
        const std::size_t other = arms.size() == 2 && arm == arms[0] ? arms[1] : arms[0];
        const bool is_alternative =
            other != arm && before_[other].contains(i) && !after_[i].contains(other);
        const double wrote = is_alternative ? widest(other, kWrite) : blocks_[i].widest_write;
        const bool reads_less = is_alternative && is_less(widest(arm, kRead), widest(other, kRead));
        if (reads_less || is_less(widest(arm, kWrite), wrote)) std::erase(blocks_[i].next, arm);
      }
    }
  }

  // A loop is what leads back to a block that all of it comes after.
  void find_loops() {
    for (std::size_t from = 0; from < blocks_.size(); ++from) {
      for (const std::size_t first : blocks_[from].next) {
        if (!before_[from].contains(first)) continue;
        std::set<std::size_t>& body = loops_[first];
        body.insert(first);
        std::vector<std::size_t> open = {from};
        while (!open.empty()) {
          const std::size_t block = open.back();
          open.pop_back();
          if (!body.insert(block).second) continue;
          for (std::size_t i = 0; i < blocks_.size(); ++i) {
            if (is_reached(i) && std::ranges::count(blocks_[i].next, block) > 0) open.push_back(i);
          }
        }
      }
    }
    loops_of_.resize(blocks_.size());
    for (const auto& [first, body] : loops_) {
      for (const std::size_t block : body) loops_of_[block].push_back(first);
    }
    for (std::vector<std::size_t>& loops : loops_of_) {
      std::ranges::sort(loops, std::ranges::greater(),
                        [&](std::size_t first) { return loops_.at(first).size(); });
    }
  }

  Blocks blocks_;
  Sets before_, after_;                                 // on every path to a block, and from it
  std::map<std::size_t, std::set<std::size_t>> loops_;  // by their first blocks
  std::vector<std::vector<std::size_t>> loops_of_;
};

Blocks blocks_of(std::span<const MachineInstruction> code) {
  std::set<std::size_t> starts = {0};
  std::map<std::size_t, std::size_t> index_at;  // address -> instruction
  for (std::size_t i = 0; i < code.size(); ++i) index_at[code[i].address] = i;
  for (std::size_t i = 0; i < code.size(); ++i) {
    const std::string word = first_word(code[i].opcode);
    if (word == "BRA" || word == "EXIT" || word == "RET") starts.insert(i + 1);
    if (code[i].target) starts.insert(index_at.at(*code[i].target));
  }
  starts.erase(code.size());
  std::map<std::size_t, std::size_t> block_at;
  for (const std::size_t start : starts) block_at.emplace(start, block_at.size());
  Blocks blocks;
  for (auto start = starts.begin(); start != starts.end(); ++start) {
    const std::size_t end = std::next(start) == starts.end() ? code.size() : *std::next(start);
    BasicBlock block;
    for (std::size_t i = *start; i < end; ++i) {
      const std::string word = first_word(code[i].opcode);
      block.instructions += 1;
      block.calls = block.calls || word == "CALL";
      if (word == "LDG") block.widest_read = std::max(block.widest_read, bytes_of(code[i].opcode));
      if (word == "STG")
        block.widest_write = std::max(block.widest_write, bytes_of(code[i].opcode));
      add_events(block.events, code[i].opcode);
    }
    const MachineInstruction& last = code[end - 1];
    const std::string word = first_word(last.opcode);
    const bool parted = last.opcode.find(".DIV") != std::string::npos;
    block.may_end = (word == "EXIT" || word == "RET") && last.is_conditional;
    const bool ends = word == "EXIT" || word == "RET" || word == "BRA";
    if (!ends || last.is_conditional || parted) {
      if (end < code.size()) block.next.push_back(block_at.at(end));
    }
    if (last.target && !parted) block.next.push_back(block_at.at(index_at.at(*last.target)));
    blocks.push_back(std::move(block));
  }
  for (BasicBlock& block : blocks) {  // calls that may be passed over are
    if (block.next.size() != 2) continue;
    std::erase_if(block.next, [&](std::size_t to) { return blocks[to].calls; });
  }
  return blocks;
}

void add(Region& region, const Region& other) {
  region.instructions += other.instructions;
  for (std::size_t i = 0; i < region.events.size(); ++i) region.events[i] += other.events[i];
}

// Returns what is executed together, by its first block. That of a loop is the loop's own.
std::map<std::size_t, Region> groups_of(const Flow& flow) {
  std::map<std::size_t, Region> groups;
  for (std::size_t block = 0; block < flow.blocks().size(); ++block) {
    if (!flow.is_reached(block)) continue;
    std::size_t group = block;
    for (const auto& [first, region] : groups) {
      const bool same_loop = flow.loops_of(first) == flow.loops_of(block);
      if (group == block && same_loop && flow.are_together(first, block)) group = first;
    }
    const BasicBlock& what = flow.blocks()[block];
    add(groups[group], {.instructions = what.instructions, .events = what.events});
  }
  return groups;
}

}  // namespace

std::optional<MachineInstruction> read_instruction(const std::string& line) {
  static const std::regex form(
      R"(^\s+/\*([0-9a-f]+)\*/\s+(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)\s*([^;]*);)");
  static const std::regex predicate(R"(^!?U?P\d)"), target(R"(0x([0-9a-f]+)\s*$)");
  std::smatch found, at;
  const std::size_t begin = line.find_first_not_of(' ');
  if (begin == line.npos || begin > 8 || line[begin] != '/') return std::nullopt;  // most lines
  if (!std::regex_search(line, found, form)) return std::nullopt;
  MachineInstruction instruction{std::stoul(found[1], nullptr, 16), found[3], found[2].matched, {}};
  const std::string operands = found[4];
  if (first_word(instruction.opcode) == "BRA" && std::regex_search(operands, at, target)) {
    instruction.target = std::stoul(at[1], nullptr, 16);
    if (std::regex_search(operands, predicate)) instruction.is_conditional = true;
  }
  return instruction;
}

KernelCode regions_of(std::span<const MachineInstruction> code) {
  const Flow flow(blocks_of(code));
  const std::map<std::size_t, Region> groups = groups_of(flow);
  const auto is_loop = [&](std::size_t group) {
    return !flow.loops_of(group).empty() && flow.loops_of(group).back() == group;
  };
  std::vector<std::size_t> order;  // loops before what is in them
  for (const auto& [group, region] : groups) order.push_back(group);
  std::ranges::stable_sort(order, {}, [&](std::size_t group) {
    return 2 * flow.loops_of(group).size() - (is_loop(group) ? 1 : 0);
  });
  KernelCode regions;
  std::map<std::size_t, std::size_t> region_of_loop;
  std::map<std::tuple<Region::Kind, std::size_t, std::vector<bool>>, std::size_t> known;
  for (const std::size_t group : order) {
    Region region = groups.at(group);
    const std::vector<std::size_t>& loops = flow.loops_of(group);
    const std::size_t outer = loops.size() - (is_loop(group) ? 1 : 0);
    region.kind = group == 0       ? Region::Kind::straight
                  : is_loop(group) ? Region::Kind::loop
                                   : Region::Kind::arm;
    region.parent = outer == 0 ? 0 : region_of_loop.at(loops[outer - 1]);
    std::vector<bool> kinds;
    for (const double count : region.events) kinds.push_back(count > 0);
    const auto [found, is_new] =
        known.insert({{region.kind, region.parent, kinds}, regions.size()});
    if (is_new) {
      regions.push_back(region);
    } else {
      add(regions[found->second], region);
    }
    if (is_loop(group)) region_of_loop[group] = found->second;
  }
  return regions;
}

}  // namespace ladder
