#include "common/optimizer/state.h"

#include <algorithm>
#include <iterator>

namespace ladder {

OptimizerState::OptimizerState(Memory& memory, const Rules& rules, DType dtype,
                               const Layout& layout, size_t rank, bool is_sharded, bool has_masters)
    : rules_(rules), layout_(layout), rank_(rank), is_sharded_(is_sharded) {
  find_parts();
  for (const std::string_view kind : kStoredKinds) add_kind(memory, dtype, kind);
  if (has_masters) masters = Tensor(memory, Category::optimizer, dtype, {num_elements()});
}

void OptimizerState::find_parts() {
  for (size_t unit = 0; unit < layout_.units().size(); ++unit) {
    const Unit& u = layout_.unit(unit);
    const size_t begin = is_sharded_ ? shard_begin(layout_, unit, rank_) : u.offset;
    const size_t count = is_sharded_ ? shard_elements(layout_, unit) : u.trained_elements;
    for_parameters_in(layout_, begin, begin + count,
                      [&](const Parameter& parameter, size_t first, size_t from, size_t to) {
                        parts_.push_back({.parameter = &parameter,
                                          .rule = rule_of(rules_, parameter.matrix),
                                          .unit = unit,
                                          .first = from - first,
                                          .count = to - from,
                                          .flat = from,
                                          .within = from - begin});
                      });
  }
}

bool OptimizerState::is_kept(std::string_view kind, size_t rule) const {
  return std::ranges::count(rules_[rule]->state(), kind) > 0;
}

void OptimizerState::add_kind(Memory& memory, DType dtype, std::string_view name) {
  size_t num_rules = 0, end = 0;
  for (size_t rule = 0; rule < rules_.size(); ++rule) num_rules += is_kept(name, rule);
  if (num_rules == 0) return;
  Kind kind = {.name = name, .buffer = {}, .begins = {}};
  for (const Part& own : parts_) {
    const Unit& unit = layout_.unit(own.unit);
    const size_t as_parameters = (is_sharded_ ? unit.shard_offset : unit.offset) + own.within;
    if (num_rules == rules_.size()) {
      kind.begins.push_back(as_parameters);
    } else if (is_kept(name, own.rule)) {
      kind.begins.push_back(end);
      end += own.count;
    } else {
      kind.begins.push_back(kNone);
    }
  }
  const size_t elements = num_rules == rules_.size() ? num_elements() : end;
  kind.buffer = Tensor(memory, Category::optimizer, dtype, {elements});
  kinds_.push_back(std::move(kind));
}

const OptimizerState::Kind* OptimizerState::find(std::string_view kind) const {
  const auto found = std::ranges::find(kinds_, kind, &Kind::name);
  return found == kinds_.end() ? nullptr : &*found;
}

TensorView OptimizerState::buffer(std::string_view kind) const {
  const Kind* const found = find(kind);
  return found == nullptr ? TensorView() : found->buffer.view();
}

std::vector<Slice> OptimizerState::held(std::string_view kind) const {
  std::vector<Slice> slices;
  const Kind* const found = find(kind);
  for (size_t i = 0; found != nullptr && i < parts_.size(); ++i) {
    if (found->begins[i] == kNone) continue;
    const Part& own = parts_[i];
    slices.push_back(
        {own.parameter, own.first, found->buffer.view().rows(found->begins[i], own.count)});
  }
  return slices;
}

std::vector<Slice> OptimizerState::owned(std::string_view kind) const {
  std::vector<Slice> slices;
  const Kind* const found = find(kind);
  for (size_t i = 0; found != nullptr && i < parts_.size(); ++i) {
    const Part& own = parts_[i];
    if (found->begins[i] == kNone || !own.parameter->counted) continue;
    const FlatRange range = owned_range(layout_, own.unit, rank_);
    const size_t begin = shard_begin(layout_, own.unit, rank_) + range.first;
    const size_t from = std::max(begin, own.flat);
    const size_t to = std::min(begin + range.count, own.flat + own.count);
    if (from >= to) continue;
    const size_t skipped = from - own.flat;
    slices.push_back({own.parameter, own.first + skipped,
                      found->buffer.view().rows(found->begins[i] + skipped, to - from)});
  }
  return slices;
}

void OptimizerState::add_tensors(size_t rule, size_t unit, const UpdateTensors& all,
                                 std::vector<UpdateTensors>& tensors) const {
  const std::vector<std::string_view> names = rules_[rule]->state();
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& own = parts_[i];
    if (own.rule != rule || own.unit != unit) continue;
    const auto rows = [&](auto view) { return view.rows(own.within, own.count); };
    tensors.push_back({.parameter = own.parameter,
                       .param = rows(all.param),
                       .grad = rows(all.grad),
                       .copy = all.copy.empty() ? TensorView() : rows(all.copy)});
    for (const std::string_view name : names) {
      const Kind& kind = *find(name);
      tensors.back().state.push_back(kind.buffer.view().rows(kind.begins[i], own.count));
    }
  }
}

}  // namespace ladder
