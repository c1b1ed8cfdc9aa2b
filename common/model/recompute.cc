#include "common/model/recompute.h"

#include <algorithm>

#include "common/model/description.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

using O = SublayerOperation;

BlockOperations only(size_t operation) { return BlockOperations().set(operation); }

// The first linear layer of a sublayer and its core.
BlockOperations inside(size_t sublayer) {
  return only(number_of_operation(sublayer, O::first)) |
         only(number_of_operation(sublayer, O::core));
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
  const BlockOperations within_block = ~only(kBlockOutput);
  if (name == "none") return {name};
  if (name == "cheap") {
    return {name, in_all_sublayers(O::norm) | only(number_of_operation(kMlp, O::core))};
  }
  if (name == "attention") return {name, inside(kAttention)};
  if (name == "mlp") return {name, inside(kMlp)};
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
  std::vector<BlockOperations> dropped(num_blocks, mode.dropped);
  for (size_t block = 0; block + 1 < num_blocks; ++block) {
    dropped[block][kBlockOutput] = (block + 1) % mode.group_size != 0;
  }
  return RecomputePlan(dropped, num_in_flight, mode.runs_whole);
}

RecomputePlan plan_recompute(const RecomputeMode& mode, const ModelConfig& model) {
  RecomputePlan plan = plan_recompute(mode, model.num_layers, 1);
  if (model.frozen.empty()) return plan;
  const ModelDescription described = describe(model);
  const auto end =
      described.operations.begin() + static_cast<std::ptrdiff_t>(described.first_trained());
  const auto before =
      std::ranges::count(described.operations.begin(), end, OperationKind::block, &Operation::kind);
  plan.end_backward_at(static_cast<size_t>(before));
  return plan;
}

void RecomputePlan::end_backward_at(size_t first) {
  bool is_reached = true;  // whether the group is, in which the block lies
  for (size_t block = blocks_.size(); block-- > 0;) {
    if (ends_group(block)) is_reached = block >= first;
    if (!is_reached) blocks_[block].recomputed.reset();
  }
}

RecomputePlan::RecomputePlan(const std::vector<BlockOperations>& dropped, size_t num_in_flight,
                             bool runs_whole) {
  for (const BlockOperations& of_block : dropped) {
    const bool continues_group = !blocks_.empty() && blocks_.back().dropped[kBlockOutput];
    const size_t set = continues_group ? blocks_.back().set + 1 : 0;
    blocks_.push_back({.dropped = of_block, .recomputed = {}, .set = set});
    if (set == sets_.size()) sets_.emplace_back();
    sets_[set] |= of_block;
  }
  check(dropped.empty() || !dropped.back()[kBlockOutput],
        "RecomputePlan: the output of the last block must be kept");
  std::vector<BlockOperations> overwritten(sets_.size());  // by later blocks, in forward
  if (num_in_flight > 1) std::ranges::fill(overwritten, BlockOperations().set());
  for (size_t block = blocks_.size(); block-- > 0;) {
    BlockOperations& later = overwritten[blocks_[block].set];
    blocks_[block].recomputed = blocks_[block].dropped & later;
    later |= blocks_[block].dropped;
  }
  if (!runs_whole) return;
  for (Block& block : blocks_) {
    if (block.dropped.any()) block.recomputed = BlockOperations().set();
  }
}

}  // namespace ladder
