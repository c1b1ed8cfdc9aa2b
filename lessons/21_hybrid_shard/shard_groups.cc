#include "lessons/21_hybrid_shard/shard_groups.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/io/text.h"
#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Returns the different numbers of ranks that machines have, as in "1 and 3".
std::string unequal_machines(const std::vector<size_t>& machine_of) {
  std::map<size_t, size_t> ranks;
  for (size_t machine : machine_of) ++ranks[machine];
  std::set<size_t> numbers;
  for (const auto& [machine, count] : ranks) numbers.insert(count);
  std::string text;
  if (numbers.size() < 2) return text;
  for (size_t count : numbers) text += concat(text.empty() ? "" : " and ", count);
  return text;
}

}  // namespace

bool groups_cross_machines(const std::vector<size_t>& machine_of, size_t shard_size) {
  for (size_t rank = 0; rank < machine_of.size(); ++rank) {
    if (machine_of[rank] != machine_of[rank / shard_size * shard_size]) return true;
  }
  return false;
}

void ShardFlags::add_to(FlagTable& flags) {
  flags.heading("Hybrid shards");
  flags.add("--shard-size", shard_size,
            "Ranks that share one copy of the model's state [those of a machine]",
            whole(1, kMostRanks));
}

ProcessGrid ShardFlags::arrange(size_t num_ranks, size_t rank) const {
  const size_t size = shard_size > 0 ? shard_size : num_ranks;
  if (num_ranks % size != 0) {
    throw UserError(concat("--shard-size ", size, " does not divide ", counted(num_ranks, "rank")));
  }
  return {.data_size = num_ranks, .rank = rank, .shard_size = size};
}

void ShardFlags::adjust(const std::vector<size_t>& machine_of) {
  if (machine_of.empty()) return;
  const std::string numbers = unequal_machines(machine_of);
  if (shard_size == 0) {
    if (!numbers.empty()) {
      throw UserError(
          concat("--shard-size: it is the number of a machine's ranks, but machines have ", numbers,
                 " ranks; say how many share a copy of the model"));
    }
    shard_size = static_cast<size_t>(std::ranges::count(machine_of, machine_of.front()));
  }
  if (numbers.empty() || !groups_cross_machines(machine_of, shard_size)) return;
  throw UserError(concat("--shard-size ", shard_size, ": a group would cross machines that have ",
                         numbers, " ranks; take a size that divides all of these"));
}

size_t layout_rank(const ProcessGrid& grid) {
  return grid.group_rank(Axis::shard) * grid.size(Axis::replica) + grid.group_rank(Axis::replica);
}

}  // namespace ladder
