// One description of what a rank keeps of the model: slices of its tensors.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "common/model/layout.h"

namespace ladder {

// Elements of one tensor of the model that lie together in this rank's memory, on the device or on
// the host.
struct Slice {
  // The tensor's name and full shape. Of the elements that a rank of a tensor-parallel group holds,
  // which lie in the full tensor in runs (Parameter::runs), these are numbers [first, first + n).
  const Parameter* parameter;
  size_t first = 0;
  TensorView view;  // (n)
};

// The slices in `buffer`, a flat buffer of the layout or one that has rank `rank`'s shards alone.
std::vector<Slice> held_slices(const Layout& layout, size_t rank, TensorView buffer);

// Of these the slices that rank `rank` of the layout's world_size ranks owns: its shard of every
// unit, without copies that another pipeline stage or tensor-parallel rank owns. Every element of
// the model has one owner among all ranks, which writes it to dumps and counts it in the norm.
std::vector<Slice> owned_slices(const Layout& layout, size_t rank, TensorView buffer);

// Receives one full tensor of the model in host memory, valid during the call.
using TensorSink = std::function<void(const ParameterSpec&, ConstTensorView)>;

// Kinds of tensors that a trainer keeps for each parameter. A dump has them all.
inline constexpr std::string_view kParam = "param", kGrad = "grad", kExpAvg = "exp_avg",
                                  kExpAvgSq = "exp_avg_sq";
inline constexpr std::string_view kDumpedKinds[] = {kGrad, kParam, kExpAvg, kExpAvgSq};

}  // namespace ladder
