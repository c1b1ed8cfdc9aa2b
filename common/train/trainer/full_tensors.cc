#include "common/train/trainer/full_tensors.h"

#include <algorithm>
#include <cstring>

namespace ladder {
namespace {

constexpr size_t kPieceElements = size_t{1} << 20;

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
  piece_ = Tensor(host_memory, Category::workspace, dtype, {std::min(largest, kPieceElements)});
  if (world.rank() == 0) full_ = Tensor(host_memory, Category::workspace, dtype, {largest});
}

std::vector<FullTensors::Place> FullTensors::places_of(const std::vector<Slice>& owned) const {
  std::vector<Place> places;
  for (const Slice& slice : owned) {
    const auto tensor = std::ranges::find(tensors_, slice.parameter->name, &ParameterSpec::name);
    check(tensor != tensors_.end(), "FullTensors: a slice of no tensor of the model");
    places.push_back({.tensor = static_cast<uint64_t>(tensor - tensors_.begin()),
                      .first = slice.first,
                      .count = slice.view.num_elements(),
                      .runs = slice.parameter->runs});
  }
  return places;
}

std::vector<std::vector<FullTensors::Place>> FullTensors::gather_places(
    const std::vector<Place>& own) {
  if (world_.size() == 1) return {own};
  std::vector<int32_t> counts(world_.size());
  counts[world_.rank()] = static_cast<int32_t>(own.size());
  const TensorView all = as_words(counts.data(), counts.size() * sizeof(int32_t));
  world_.all_gather(host_stream_, all, all.rows(world_.rank(), 1), {}).wait(host_stream_);
  std::vector<std::vector<Place>> places = {own};
  for (size_t rank = 1; rank < world_.size(); ++rank) {
    std::vector<Place> of_rank = world_.rank() == rank ? own : std::vector<Place>();
    of_rank.resize(static_cast<size_t>(counts[rank]));
    const TensorView words = as_words(of_rank.data(), of_rank.size() * sizeof(Place));
    if (of_rank.empty()) {
    } else if (world_.rank() == rank) {
      world_.send(host_stream_, words, 0, {}).wait(host_stream_);
    } else if (world_.rank() == 0) {
      world_.recv(host_stream_, words, rank, {}).wait(host_stream_);
    }
    places.push_back(std::move(of_rank));
  }
  return places;
}

template <class Body>
void FullTensors::for_pieces(const Place& whole, Body body) {
  for (uint64_t done = 0; done < whole.count; done += piece_.shape()[0]) {
    Place part = whole;
    part.first += done;
    part.count = std::min<uint64_t>(whole.count - done, piece_.shape()[0]);
    body(part, done);
  }
}

void FullTensors::place(const Place& part, TensorView full) {
  Parameter parameter;
  parameter.runs = part.runs;
  for_runs_in(parameter, part.first, part.first + part.count,
              [&](size_t from, size_t at, size_t count) {
                copy(host_stream_, full.elements(at, {count}),
                     piece_.view().elements(from - part.first, {count}));
              });
}

void FullTensors::visit(const std::vector<Slice>& owned, Stream& stream, const TensorSink& sink) {
  const std::vector<Place> own = places_of(owned);
  const std::vector<std::vector<Place>> places = gather_places(own);
  const bool is_root = world_.rank() == 0;
  for (size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    TensorView full;
    if (is_root) full = full_.view().elements(0, tensors_[tensor].shape);
    size_t num_placed = 0;
    for (size_t i = 0; i < own.size(); ++i) {
      if (own[i].tensor != tensor) continue;
      for_pieces(own[i], [&](const Place& part, size_t begin) {
        const TensorView piece = piece_.view().elements(0, {part.count});
        copy(stream, piece, owned[i].view.elements(begin, {part.count}));
        stream.synchronize();
        if (is_root) {
          place(part, full);
          num_placed += part.count;
        } else {
          world_.send(host_stream_, piece, 0, {}).wait(host_stream_);
        }
      });
    }
    if (!is_root) continue;
    for (size_t rank = 1; rank < places.size(); ++rank) {
      for (const Place& theirs : places[rank]) {
        if (theirs.tensor != tensor) continue;
        for_pieces(theirs, [&](const Place& part, size_t) {
          const TensorView piece = piece_.view().elements(0, {part.count});
          world_.recv(host_stream_, piece, rank, {}).wait(host_stream_);
          place(part, full);
          num_placed += part.count;
        });
      }
    }
    if (num_placed != full.num_elements()) {
      fail(concat(tensors_[tensor].name, ": the ranks own ", num_placed, " of its ",
                  full.num_elements(), " elements"));
    }
    sink(tensors_[tensor], full);
  }
}

}  // namespace ladder
