#include "common/train/trainer/full_tensors.h"

#include <algorithm>
#include <cstring>

#include "kernels/elementwise.h"

namespace ladder {
namespace {

constexpr size_t kSegmentElements = size_t{1} << 20;

// Returns a view of bytes as int32, a dtype that communicators take.
TensorView as_words(void* data, size_t bytes) {
  return TensorView(data, DType::int32, DeviceType::cpu, {bytes / sizeof(int32_t)});
}

}  // namespace

FullTensors::FullTensors(Memory& host_memory, const ModelDescription& model, DType dtype,
                         Communicator& world)
    : world_(world) {
  size_t largest = 0;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      tensors_.push_back(parameter);
      largest = std::max(largest, parameter.shape.num_elements());
    }
  }
  segment_ = Tensor(host_memory, Category::workspace, dtype, {std::min(largest, kSegmentElements)});
  if (world.rank() == 0) full_ = Tensor(host_memory, Category::workspace, dtype, {largest});
}

std::vector<FullTensors::Range> FullTensors::ranges_of(const std::vector<Slice>& owned) const {
  std::vector<Range> ranges;
  for (const Slice& slice : owned) {
    const auto tensor = std::ranges::find(tensors_, slice.parameter->name, &ParameterSpec::name);
    check(tensor != tensors_.end(), "FullTensors: a slice of no tensor of the model");
    ranges.push_back({.tensor = static_cast<uint64_t>(tensor - tensors_.begin()),
                      .first = slice.first,
                      .count = slice.view.num_elements(),
                      .ranges = slice.parameter->ranges});
  }
  return ranges;
}

std::vector<std::vector<FullTensors::Range>> FullTensors::gather_ranges(
    const std::vector<Range>& own) {
  if (world_.size() == 1) return {own};
  std::vector<int32_t> counts(world_.size());
  counts[world_.rank()] = static_cast<int32_t>(own.size());
  const TensorView all = as_words(counts.data(), counts.size() * sizeof(int32_t));
  world_.all_gather(host_stream_, all, all.rows(world_.rank(), 1), {}).wait(host_stream_);
  std::vector<std::vector<Range>> ranges = {own};
  for (size_t rank = 1; rank < world_.size(); ++rank) {
    std::vector<Range> of_rank = world_.rank() == rank ? own : std::vector<Range>();
    of_rank.resize(static_cast<size_t>(counts[rank]));
    const TensorView words = as_words(of_rank.data(), of_rank.size() * sizeof(Range));
    if (of_rank.empty()) {
    } else if (world_.rank() == rank) {
      world_.send(host_stream_, words, 0, {}).wait(host_stream_);
    } else if (world_.rank() == 0) {
      world_.recv(host_stream_, words, rank, {}).wait(host_stream_);
    }
    ranges.push_back(std::move(of_rank));
  }
  return ranges;
}

template <class Body>
void FullTensors::for_segments(const Range& whole, Body body) {
  for (uint64_t done = 0; done < whole.count; done += segment_.shape()[0]) {
    Range part = whole;
    part.first += done;
    part.count = std::min<uint64_t>(whole.count - done, segment_.shape()[0]);
    body(part, done);
  }
}

void FullTensors::put(const Range& part, TensorView full) {
  Parameter parameter;
  parameter.ranges = part.ranges;
  for_ranges_in(parameter, part.first, part.first + part.count,
                [&](size_t from, size_t at, size_t count) {
                  copy(host_stream_, full.elements(at, {count}),
                       segment_.view().elements(from - part.first, {count}));
                });
}

void FullTensors::fetch(Stream& stream, TensorView segment, ConstTensorView elements) {
  std::vector<std::byte> host;
  TensorView to = segment;
  if (elements.dtype() != segment.dtype()) {  // frozen parameters have no masters
    host.resize(elements.num_bytes());
    to = TensorView(host.data(), elements.dtype(), DeviceType::cpu, elements.shape());
  }
  copy(stream, to, elements);
  stream.synchronize();
  if (!host.empty()) cast(host_stream_, segment, to);
}

void FullTensors::visit(const OptimizerConfig& optimizer, std::string_view kind,
                        const std::vector<Slice>& owned, Stream& stream, const TensorSink& sink) {
  const std::vector<Range> own = ranges_of(owned);
  const std::vector<std::vector<Range>> ranges = gather_ranges(own);
  const bool is_root = world_.rank() == 0;
  for (size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    TensorView full;
    if (is_root) full = full_.view().elements(0, tensors_[tensor].shape);
    size_t num_placed = 0;
    for (size_t i = 0; i < own.size(); ++i) {
      if (own[i].tensor != tensor) continue;
      for_segments(own[i], [&](const Range& part, size_t begin) {
        const TensorView segment = segment_.view().elements(0, {part.count});
        fetch(stream, segment, owned[i].view.elements(begin, {part.count}));
        if (is_root) {
          put(part, full);
          num_placed += part.count;
        } else {
          world_.send(host_stream_, segment, 0, {}).wait(host_stream_);
        }
      });
    }
    if (!is_root) continue;
    for (size_t rank = 1; rank < ranges.size(); ++rank) {
      for (const Range& theirs : ranges[rank]) {
        if (theirs.tensor != tensor) continue;
        for_segments(theirs, [&](const Range& part, size_t) {
          const TensorView segment = segment_.view().elements(0, {part.count});
          world_.recv(host_stream_, segment, rank, {}).wait(host_stream_);
          put(part, full);
          num_placed += part.count;
        });
      }
    }
    if (num_placed == 0 && !keeps(optimizer, kind, tensors_[tensor])) continue;
    if (num_placed != full.num_elements()) {
      fail(concat(tensors_[tensor].name, ": the ranks own ", num_placed, " of its ",
                  full.num_elements(), " elements"));
    }
    sink(tensors_[tensor], full);
  }
}

}  // namespace ladder
