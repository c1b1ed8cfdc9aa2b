// Negative controls of check_replicas(): each rank in turn has a copy that differs in one bit.
#pragma once

#include <algorithm>
#include <functional>
#include <string>

#include "tests/catch.h"
#include "tests/lessons/sharded.h"
#include "tests/lessons/watched_memory.h"

namespace ladder::testing {

// How many ranks of one axis, `other` among them, hold a copy of what `culprit` holds of this
// parameter; of several axes the most; 0 if `other` has none. Which ranks these are follows from
// how models are split: data-parallel and context-parallel ranks have the same of everything,
// tensor-parallel ones of what is not split, some of them of a head of k and v, the first stage and
// the last of the token embedding.
inline size_t num_copies(const ProcessGrid& culprit, const ProcessGrid& other, const Parameter& p) {
  const bool same_stage = culprit.group_rank(Axis::pipeline) == other.group_rank(Axis::pipeline);
  const bool same_data =
      culprit.group_rank(Axis::data_context) == other.group_rank(Axis::data_context);
  const bool same_slice = culprit.group_rank(Axis::tensor) == other.group_rank(Axis::tensor);
  const auto is_end = [](const ProcessGrid& at) {
    return at.group_rank(Axis::pipeline) == 0 ||
           at.group_rank(Axis::pipeline) + 1 == at.pipeline_size;
  };
  const bool is_table = p.name == "wte.weight" || p.name == "embed_tokens.weight";
  const bool is_tied = is_table && is_end(culprit) && is_end(other);
  const size_t on_data = same_stage && same_slice ? culprit.data_size * culprit.context_size : 1;
  const bool same_heads =
      culprit.group_rank(Axis::tensor) / p.copies == other.group_rank(Axis::tensor) / p.copies;
  const size_t of_slice = !p.split ? culprit.tensor_size : same_heads ? p.copies : 1;
  const size_t on_tensor = same_stage && same_data ? of_slice : 1;
  const size_t on_pipeline =
      same_data && same_slice && is_tied && culprit.pipeline_size > 1 ? 2 : 1;
  const size_t most = std::max({on_data, on_tensor, on_pipeline});
  return most > 1 ? most : 0;
}

// On groups of `ranks` ranks: for each rank and each of its parameters the last element has another
// bit there. check_replicas() throws on the ranks that hold a copy, naming the culprit, and on no
// other. `layout_of`: of a rank's parameters, which all are on its device.
template <class T>
void require_culprits_named(const RunConfig& config, size_t ranks,
                            const std::function<Layout(const ProcessGrid&)>& layout_of,
                            const typename T::Flags& flags = {}) {
  Groups groups(ranks);
  WatchedMemory memory;
  Session<T> session(config, *groups.group, nullptr, flags, &memory);
  T& trainer = *session.trainer;
  const size_t size = size_of(config.dtype);
  char* const parameters =
      reinterpret_cast<char*>(memory.find(layout_of(session.grid).num_elements() * size));
  CHECK_NOTHROW(trainer.check_replicas());
  ProcessGrid culprit = session.grid;
  for (culprit.rank = 0; culprit.rank < groups.group->size(); ++culprit.rank) {
    const Layout layout = layout_of(culprit);
    for (const Unit& unit : layout.units()) {
      for (const Parameter& parameter : unit.parameters) {
        INFO("rank " << culprit.rank << " differs in " << parameter.name);
        const size_t end = unit.offset + parameter.offset + parameter.shape.num_elements();
        const auto flip = [&] {
          if (session.grid.rank == culprit.rank) parameters[(end - 1) * size] ^= 1;
        };
        flip();
        const size_t copies = num_copies(culprit, session.grid, parameter);
        const std::string name = concat("rank ", culprit.rank);
        if (copies == 0) {
          CHECK_NOTHROW(trainer.check_replicas());
        } else if (copies == 2) {  // nobody knows which of the two is right: both are named
          CHECK_THROWS_WITH(trainer.check_replicas(),
                            ContainsSubstring("of " + name + " differ") ||
                                ContainsSubstring("from those of " + name));
        } else {
          CHECK_THROWS_WITH(trainer.check_replicas(),
                            ContainsSubstring("the parameters of " + name + " differ"));
        }
        flip();
      }
    }
  }
  CHECK_NOTHROW(trainer.check_replicas());
}

// Of trainers all of whose ranks share the global batch and hold all parameters.
template <class T>
void require_culprits_named(const typename T::Flags& flags = {}) {
  const RunConfig config = equivalence_config(DType::fp32, 1);
  for (size_t ranks : {2, 4}) {
    require_culprits_named<T>(
        config, ranks,
        [&](const ProcessGrid& grid) { return Layout(config.model, grid.data_size); }, flags);
  }
}

}  // namespace ladder::testing
