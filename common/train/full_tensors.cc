#include "common/train/full_tensors.h"

#include <algorithm>

namespace ladder {
namespace {

// Elements of the largest split tensor, in full.
size_t largest_full(const Layout& layout) {
  return largest_parameter(
      layout, [](const Parameter& p) { return p.split ? p.full_shape.num_elements() : 0; });
}

// Of the first rank: no other rank's is larger.
size_t largest_slice(const Layout& layout) {
  return largest_parameter(layout,
                           [](const Parameter& p) { return p.split ? p.shape.num_elements() : 0; });
}

}  // namespace

SliceCollector::SliceCollector(const TrainerContext& context, const Layout& layout)
    : ranks_(context.groups->tensor()) {
  if (num_bytes(layout, context.config.accumulation()) == 0) return;
  const auto make = [&](size_t elements) {
    return Tensor(context.host_memory, Category::workspace, context.config.accumulation(),
                  {elements});
  };
  full_ = make(largest_full(layout));
  slice_ = make(largest_slice(layout));
}

size_t SliceCollector::num_bytes(const Layout& layout, DType dtype) {
  if (layout.part().tensor_rank != 0) return 0;
  return (largest_full(layout) + largest_slice(layout)) * size_of(accumulation_dtype(dtype));
}

// Slices follow one another: rank r's runs begin r runs behind the first rank's.
void SliceCollector::place(const Parameter& parameter, size_t rank, ConstTensorView slice,
                           TensorView full) {
  Parameter theirs = parameter;
  theirs.runs.first = rank * parameter.runs.length;
  for_runs_in(theirs, 0, slice.num_elements(), [&](size_t from, size_t at, size_t count) {
    copy(host_stream_, full.elements(at, {count}), slice.elements(from, {count}));
  });
}

TensorSink SliceCollector::joined(const TensorSink& sink) {
  return [this, sink](const Parameter& parameter, ConstTensorView own) {
    const CallOptions options;
    if (!parameter.split) {
      if (ranks_.rank() == 0) sink(parameter, own);
      return;
    }
    if (ranks_.rank() != 0) return ranks_.send(host_stream_, own, 0, options).wait(host_stream_);
    const TensorView full = full_.view().elements(0, parameter.full_shape);
    place(parameter, 0, own, full);
    for (size_t r = 1; r < ranks_.size(); ++r) {
      // The last ranks may have less of the vocabulary.
      const size_t behind = full.num_elements() - r * parameter.runs.length;
      const TensorView slice = slice_.view().rows(0, std::min(own.num_elements(), behind));
      ranks_.recv(host_stream_, slice, r, options).wait(host_stream_);
      place(parameter, r, slice, full);
    }
    sink(parameter, full);
  };
}

StageCollector::StageCollector(const TrainerContext& context, const std::vector<ModelPart>& parts)
    : stages_(context.groups->activations()) {
  const size_t bytes = num_bytes(context.config, parts, context.grid);
  if (bytes == 0) return;
  for (size_t stage = 1; stage < parts.size(); ++stage) {
    others_.emplace_back(context.config.model, 1, parts[stage]);
  }
  const DType dtype = context.config.accumulation();
  host_ = Tensor(context.host_memory, Category::workspace, dtype, {bytes / size_of(dtype)});
}

size_t StageCollector::num_bytes(const RunConfig& config, const std::vector<ModelPart>& parts,
                                 const ProcessGrid& grid) {
  size_t largest = 0;
  for (size_t other = 1; grid.rank == 0 && other < parts.size(); ++other) {
    largest = std::max(
        largest, largest_parameter(Layout(config.model, 1, parts[other]), [](const Parameter& p) {
          return p.counted ? p.shape.num_elements() : 0;
        }));
  }
  return largest * size_of(config.accumulation());
}

void StageCollector::visit(const std::function<void(const TensorSink&)>& visit_own,
                           const TensorSink& sink) {
  if (stages_.rank() != 0) {
    return visit_own([&](const Parameter& parameter, ConstTensorView tensor) {
      // The last stage's token embedding is the first stage's.
      if (parameter.counted) stages_.send(host_stream_, tensor, 0, {}).wait(host_stream_);
    });
  }
  visit_own(sink);
  for (size_t stage = 1; stage < stages_.size(); ++stage) {
    for (const Unit& unit : others_[stage - 1].units()) {
      for (const Parameter& parameter : unit.parameters) {
        if (!parameter.counted) continue;
        const TensorView tensor = host_.view().elements(0, parameter.shape);
        stages_.recv(host_stream_, tensor, stage, {}).wait(host_stream_);
        sink(parameter, tensor);
      }
    }
  }
}

}  // namespace ladder
