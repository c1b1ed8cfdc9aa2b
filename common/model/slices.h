// Describes which elements of the model a rank has: slices of its tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/model/layout.h"

namespace ladder {

// Elements of one tensor of the model that lie together in this rank's memory, on the device or on
// the host.
struct Slice {
  // The parameter has the tensor's name and full shape, and the runs of the full tensor that a rank
  // of a tensor-parallel group holds (Parameter::ranges). If the elements of these ranges are
  // counted from 0, the slice has elements [first, first + n).
  const Parameter* parameter;
  size_t first = 0;
  TensorView view;  // (n)
};

// Elements of a flat buffer, or of a shard, that lie together.
struct FlatRange {
  size_t first = 0, count = 0;
};

// Returns which elements of its shard of a unit's part rank `rank` owns: all of them, or where
// several ranks hold the shard (Unit::replicas) an equal part, in the order of these ranks. `rank`
// is the number in the layout, here and below; lesson 21 gives ranks other numbers there.
FlatRange owned_range(const Layout& layout, size_t unit, size_t rank,
                      UnitPart part = UnitPart::trained);

// Returns the slices in `buffer`, which is a flat buffer of the layout, or one with only the shards
// of rank `rank`. (The layout is Layout::trained() of buffers that have nothing of frozen ones.)
std::vector<Slice> held_slices(const Layout& layout, size_t rank, TensorView buffer);

// Returns those of the slices that rank `rank` of the layout's world_size ranks owns: what it owns
// of every unit, without copies that another pipeline stage or tensor-parallel rank owns. Every
// element of the model has exactly one owner, which writes it to dumps and counts it in the norm.
std::vector<Slice> owned_slices(const Layout& layout, size_t rank, TensorView buffer);

// Returns where the parameters lie of which `is_wanted` is true. Those that lie side by side are
// one range, and those without elements none. For gradients the layout is Layout::trained().
std::vector<FlatRange> flat_ranges(const Layout& layout,
                                   const std::function<bool(const Parameter&)>& is_wanted);

// A function that receives one full tensor of the model, in host memory. The view is valid during
// the call.
using TensorSink = std::function<void(const ParameterSpec&, ConstTensorView)>;

// The kinds of tensors that a trainer keeps for each parameter; of frozen ones it keeps kParam
// alone. A dump has all of them.
inline constexpr std::string_view kParam = "param", kGrad = "grad", kExpAvg = "exp_avg",
                                  kExpAvgSq = "exp_avg_sq", kMomentum = "momentum";
inline constexpr std::string_view kDumpedKinds[] = {kGrad, kParam, kExpAvg, kExpAvgSq, kMomentum};
// Those that decide the steps to come. A checkpoint has them.
inline constexpr std::string_view kStoredKinds[] = {kParam, kExpAvg, kExpAvgSq, kMomentum};

// A number of the state that decides the steps to come, such as how many updates have been made. It
// is written to checkpoints by its name, and set from them, if it is in [least, most].
struct Scalar {
  std::string name;
  std::variant<int64_t*, double*> value;
  double least = std::numeric_limits<double>::lowest(), most = std::numeric_limits<double>::max();
};

}  // namespace ladder
