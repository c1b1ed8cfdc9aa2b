// What update rules keep from step to step.
#pragma once

#include <cstdint>
#include <vector>

#include "common/model/slices.h"
#include "common/optimizer/rule.h"

namespace ladder {

// OptimizerState has the tensors of a run's rules for what this rank updates: all parameters of a
// layout, or this rank's shard of every unit. It also has their masters and counts updates.
class OptimizerState {
 public:
  // Allocates a buffer for each kind that a rule keeps. If all rules keep it, the buffer has the
  // layout of the parameters, padding included; otherwise it has only the parameters that have this
  // kind, packed. With `has_masters` there is also a master copy of the parameters, and updates go
  // to that. Category: optimizer. The rules and the layout, which is
  // Layout::trained(), must outlive this object.
  OptimizerState(Memory& memory, const Rules& rules, DType dtype, const Layout& layout, size_t rank,
                 bool is_sharded, bool has_masters);

  // Returns the buffer of a kind; empty if no rule keeps it.
  TensorView buffer(std::string_view kind) const;
  // Returns the first of all buffers: a mean or a sum of gradients; empty if rules keep nothing.
  TensorView first_buffer() const {
    return kinds_.empty() ? TensorView() : kinds_.front().buffer.view();
  }
  // Return the slices of a kind's buffer: all, or those that this rank owns (owned_range in
  // slices.h).
  std::vector<Slice> held(std::string_view kind) const;
  std::vector<Slice> owned(std::string_view kind) const;
  // Adds what a rule updates of a unit to `tensors`. `all` has the part of the unit that this rank
  // updates: param, grad and copy.
  void add_tensors(size_t rule, size_t unit, const UpdateTensors& all,
                   std::vector<UpdateTensors>& tensors) const;
  // Returns whether this rank updates shards.
  bool is_sharded() const { return is_sharded_; }

  Tensor masters;           // empty if there are none
  int64_t num_updates = 0;  // so far

 private:
  // The elements of one parameter that this rank updates.
  struct Part {
    const Parameter* parameter;
    size_t rule, unit;
    size_t first, count;  // elements of what the rank holds of the parameter
    size_t flat;          // the element of the flat buffer at which they begin
    size_t within;        // their first element in the part of the unit that the rank updates
  };
  struct Kind {
    std::string_view name;
    Tensor buffer;
    std::vector<size_t> begins;  // by part: where it lies in the buffer; kNone if it has none
  };
  static constexpr size_t kNone = ~size_t{0};

  void find_parts();
  void add_kind(Memory& memory, DType dtype, std::string_view name);
  bool is_kept(std::string_view kind, size_t rule) const;
  const Kind* find(std::string_view kind) const;
  // Returns the elements of a buffer that lies as the parameters do.
  size_t num_elements() const {
    return is_sharded_ ? layout_.num_shard_elements() : layout_.num_elements();
  }

  const Rules& rules_;
  const Layout& layout_;
  size_t rank_;
  bool is_sharded_;
  std::vector<Part> parts_;
  std::vector<Kind> kinds_;
};

}  // namespace ladder
