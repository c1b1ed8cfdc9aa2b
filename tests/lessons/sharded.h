// What lessons 02 to 06 have to pass alike: cases over groups of 1, 2, 3, 4 and 8 ranks.
#pragma once

#include "tests/catch.h"
#include "tests/lessons/equivalence.h"

namespace ladder::testing {

// Groups of `ranks` ranks, beginning with the first; the rest forms a smaller one. All groups run,
// so that every rank of the node makes the same registrations.
struct Groups {
  explicit Groups(size_t ranks, const MpiOptions& options = {})
      : all(make_communicator(world(), &node_memory, options)),
        group(all->split(world().rank() / ranks)) {}

  NodeMemory node_memory{world()};
  std::unique_ptr<Communicator> all, group;
};

// Fails with what was found: the first few of it tell which tensors are wrong and which are not.
inline void require_none(const std::vector<std::string>& found) {
  constexpr size_t kShown = 12;
  std::string text = concat(found.size(), " found:");
  for (size_t i = 0; i < std::min(kShown, found.size()); ++i) text += "\n    " + found[i];
  if (found.size() > kShown) text += "\n    ...";
  if (!found.empty()) FAIL(text);
  SUCCEED();
}

// Loss, gradients, norm, parameters and moments are lesson 01's, for micro-batches of 1 and 3 rows.
template <class T>
void require_equivalence(const typename T::Flags& flags = {}) {
  for (DType dtype : {DType::fp64, DType::fp32}) {
    const Record oracle = record_oracle(dtype);
    for (size_t ranks : {1, 2, 3, 4, 8}) {
      // Three ranks have 8 rows each, which 3 does not divide.
      for (size_t micro_batch : {size_t{1}, ranks == 3 ? size_t{4} : size_t{3}}) {
        INFO(name_of(dtype) << ", " << ranks << " ranks, micro-batch " << micro_batch);
        Groups groups(ranks);
        const RunConfig config = equivalence_config(dtype, micro_batch);
        const Record record = record_run<T>(config, *groups.group, &groups.node_memory, flags);
        if (groups.group->rank() != 0) continue;
        require_none(differences(oracle, record, bounds_for(dtype), config.optimizer));
      }
    }
  }
}

// A run on ranks that exchange nothing, each like rank 0 and the others of `grid`: only afterwards
// are their tensors collected.
template <class T>
Record record_unconnected(const RunConfig& config, ProcessGrid grid,
                          const typename T::Flags& flags = {}) {
  Groups groups(grid.world_size());
  grid.rank = groups.group->rank();
  Communicator nobody(std::make_unique<Unconnected>(grid));
  return record_run<T>(config, nobody, nullptr, flags, groups.group.get());
}

// Ranks that exchange nothing are found out, by nearly all of the oracle's numbers.
template <class T>
void require_negative_control(const RunConfig& config, const ProcessGrid& grid,
                              const typename T::Flags& flags = {}) {
  const Record oracle = record_oracle(config);
  const Record record = record_unconnected<T>(config, grid, flags);
  if (world().rank() != 0) return;
  const auto found = differences(oracle, record, bounds_for(config.dtype), config.optimizer);
  CHECK(found.size() > oracle.tensors.size() * oracle.tensors[0].size() * 9 / 10);
  CHECK(found.front().find("loss") != std::string::npos);
}
template <class T>
void require_negative_control(const typename T::Flags& flags = {}) {
  require_negative_control<T>(equivalence_config(DType::fp64, 3), {.data_size = 2}, flags);
}

// A and B compute the same bits on groups of this size, with one micro-batch a step or with
// micro-batches of one row, both from registered memory and without.
enum class Accumulation { none, rows };
template <class A, class B>
void require_same_bits(DType dtype, size_t ranks, Accumulation accumulation,
                       const typename A::Flags& a_flags = {},
                       const typename B::Flags& b_flags = {}) {
  INFO(name_of(dtype) << ", " << ranks << " ranks"
                      << (accumulation == Accumulation::none ? "" : ", accumulation"));
  Groups groups(ranks);
  const size_t rows = 24 / groups.group->size();  // the last group may be a smaller one
  const RunConfig config = equivalence_config(dtype, accumulation == Accumulation::none ? rows : 1);
  MemorySource* const registered = &groups.node_memory;
  const Record a = record_run<A>(config, *groups.group, registered, a_flags);
  for (MemorySource* source : {registered, static_cast<MemorySource*>(nullptr)}) {
    const Record b = record_run<B>(config, *groups.group, source, b_flags);
    if (groups.group->rank() == 0) require_none(differences(a, b, {}, config.optimizer));
  }
}

// Elements of a unit of this name, padding included.
inline size_t elements_of(const Layout& layout, const std::string& unit) {
  return std::ranges::find(layout.units(), unit, &Unit::name)->padded_elements;
}

// Memory and communication are as predicted. Returns the record.
template <class T>
Record require_predicted(const RunConfig& config, Groups& groups,
                         const typename T::Flags& flags = {}) {
  Record record = record_run<T>(config, *groups.group, &groups.node_memory, flags);
  require_as_predicted(record);
  return record;
}
template <class T>
void require_predicted(size_t micro_batch, const typename T::Flags& flags = {}) {
  for (size_t ranks : {1, 2, 3, 4, 8}) {
    INFO(ranks << " ranks, micro-batch " << micro_batch);
    Groups groups(ranks);
    require_predicted<T>(equivalence_config(DType::fp32, micro_batch), groups, flags);
  }
}

// Of bf16 against fp32: half the bytes of parameters and of what moves of them; gradients are fp32
// as before, and AdamW's state is three numbers instead of two. Activations halve, but for (NH + 4)
// L + 2 numbers a row.
template <class T>
void require_low_precision_bytes(size_t ranks, const typename T::Flags& flags = {}) {
  const auto predicted = [&](DType dtype) {
    return predict<T>(equivalence_config(dtype, 4), {.data_size = ranks}, flags);
  };
  const Prediction full = predicted(DType::fp32), low = predicted(DType::bf16);
  CHECK(2 * low.device[Category::parameters] == full.device[Category::parameters]);
  CHECK(low.device[Category::gradients] == full.device[Category::gradients]);
  CHECK(2 * low.device[Category::optimizer] == 3 * full.device[Category::optimizer]);
  const size_t rows = 4 * 16, fp32_numbers = (2 + 4) * 2 + 2;
  CHECK(2 * low.device[Category::activations] ==
        full.device[Category::activations] + rows * fp32_numbers * sizeof(float));
  for (const auto& [key, traffic] : full.step) {
    INFO(name_of(key));
    const size_t share = key.purpose == Purpose::gradient ? 1 : 2;
    CHECK(low.step.at(key).calls == traffic.calls);
    CHECK(share * low.step.at(key).payload_bytes == traffic.payload_bytes);
  }
}

// In bf16, with accumulation: near lesson 01's fp64, memory and bytes as predicted. Ranks that
// exchange nothing are found out.
template <class T>
void require_low_precision(const typename T::Flags& flags = {}) {
  const Record exact = record_oracle(DType::fp64);
  const RunConfig config = equivalence_config(DType::bf16, 4);
  for (size_t ranks : {2, 3}) {
    INFO(ranks << " ranks, bf16");
    Groups groups(ranks);
    const Record record = require_predicted<T>(config, groups, flags);
    if (groups.group->rank() == 0) require_none(low_precision_differences(exact, record, config));
  }
  require_low_precision_bytes<T>(3, flags);
  const Record alone = record_unconnected<T>(config, {.data_size = 2}, flags);
  if (world().rank() != 0) return;
  CHECK(low_precision_differences(exact, alone, config).size() > 50);
}

// The bytes of one step's traffic, as predicted for `ranks` ranks.
template <class T>
size_t predicted_bytes(const RunConfig& config, size_t ranks, Purpose purpose,
                       Collective collective, const typename T::Flags& flags = {}) {
  const ProcessGrid grid = {.data_size = ranks, .rank = 0};
  return predict<T>(config, grid, flags).step.at({purpose, collective}).payload_bytes;
}

}  // namespace ladder::testing
