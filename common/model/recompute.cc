#include "common/model/recompute.h"

#include <algorithm>
#include <initializer_list>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

using S = BlockStep;

BlockSteps steps(std::initializer_list<S::Index> indices) {
  BlockSteps set;
  for (S::Index index : indices) set.set(index);
  return set;
}

// Returns K of "every-K", or 0 if the name is none of these. K is a whole number from 1 on, without
// leading zeros, and with at most five digits.
size_t group_size_of(const std::string& name) {
  const std::string prefix = "every-";
  if (!name.starts_with(prefix)) return 0;
  const std::string number = name.substr(prefix.size());
  const auto is_digit = [](char c) { return '0' <= c && c <= '9'; };
  if (!std::ranges::all_of(number, is_digit) || number.empty() || number.size() > 5) return 0;
  return number[0] == '0' ? 0 : std::stoul(number);
}

}  // namespace

RecomputeMode parse_recompute(const std::string& name) {
  const BlockSteps within_block = ~steps({S::out});
  if (name == "none") return {name};
  if (name == "cheap") return {name, steps({S::ln_1, S::ln_2, S::gelu})};
  if (name == "attention") return {name, steps({S::qkv, S::attention})};
  if (name == "mlp") return {name, steps({S::fc, S::gelu})};
  if (name == "block") return {name, within_block};
  if (name == "whole") return {.name = name, .dropped = within_block, .runs_whole = true};
  const size_t group_size = group_size_of(name);
  if (group_size > 0) return {name, within_block, group_size};
  throw UserError(concat("--recompute ", name,
                         ": expected none, cheap, attention, mlp, block, whole, or every-K for a "
                         "number of blocks K, such as every-2"));
}

void check_recompute(const RecomputeMode& mode, size_t num_blocks) {
  if (num_blocks == 0 || mode.group_size <= num_blocks) return;
  throw UserError(concat("--recompute ", mode.name, ": a rank has only ",
                         counted(num_blocks, "transformer block"), "; every-", num_blocks,
                         " would do"));
}

RecomputePlan plan_recompute(const RecomputeMode& mode, size_t num_blocks, size_t num_in_flight) {
  check_recompute(mode, num_blocks);
  if (!mode.of_blocks.empty()) return RecomputePlan(mode.of_blocks, num_in_flight);
  std::vector<BlockSteps> dropped(num_blocks, mode.dropped);
  for (size_t block = 0; block + 1 < num_blocks; ++block) {
    dropped[block][S::out] = (block + 1) % mode.group_size != 0;
  }
  return RecomputePlan(dropped, num_in_flight, mode.runs_whole);
}

RecomputePlan::RecomputePlan(const std::vector<BlockSteps>& dropped, size_t num_in_flight,
                             bool runs_whole) {
  for (const BlockSteps& steps_of_block : dropped) {
    const bool continues_group = !blocks_.empty() && blocks_.back().dropped[S::out];
    const size_t set = continues_group ? blocks_.back().set + 1 : 0;
    blocks_.push_back({.dropped = steps_of_block, .recomputed = {}, .set = set});
    if (set == sets_.size()) sets_.emplace_back();
    sets_[set] |= steps_of_block;
  }
  check(dropped.empty() || !dropped.back()[S::out],
        "RecomputePlan: the output of the last block must be kept");
  std::vector<BlockSteps> overwritten(sets_.size());  // by later blocks, in forward
  if (num_in_flight > 1) std::ranges::fill(overwritten, kAllBlockSteps);
  for (size_t block = blocks_.size(); block-- > 0;) {
    BlockSteps& later = overwritten[blocks_[block].set];
    blocks_[block].recomputed = blocks_[block].dropped & later;
    later |= blocks_[block].dropped;
  }
  if (!runs_whole) return;
  for (Block& block : blocks_) {
    if (block.dropped.any()) block.recomputed = kAllBlockSteps;
  }
}

}  // namespace ladder
