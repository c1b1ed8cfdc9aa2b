#include "common/comm/staged_transport.h"

#include <algorithm>
#include <utility>

#include "common/comm/one_rank.h"

namespace ladder {
namespace {

// How many equal parts the two buffers of an operation have: one, or one for each rank. A segment
// of the operation is the same elements of each part.
struct Blocks {
  size_t in, out;
};

Blocks blocks_of(Collective collective, size_t size) {
  switch (collective) {
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::reduce:
      return {1, 1};
    case Collective::reduce_scatter:
      return {size, 1};
    case Collective::all_gather:
      return {1, size};
    case Collective::send:
      return {1, 0};
    case Collective::recv:
      return {0, 1};
    case Collective::all_to_all:  // its parts need not be equal
    case Collective::barrier:
      return {0, 0};
  }
  return {0, 0};
}

Tensor pinned_area(Memory& memory, size_t bytes) {
  return Tensor(memory, Category::communication, DType::fp64, {(bytes + 7) / 8});
}

// Returns a view of the area with `count` elements for each of `blocks` parts, and an empty view if
// there are no parts.
TensorView area_view(const Tensor& area, DType dtype, size_t blocks, size_t count) {
  if (blocks == 0) return {};
  return TensorView(area.view().data(), dtype, DeviceType::cpu, {blocks * count});
}

// Copies elements [first, first + count) of each part of a device buffer into host memory, where
// they lie one after the other.
void copy_out(Stream& stream, TensorView host, ConstTensorView device, size_t blocks, size_t first,
              size_t count) {
  for (size_t b = 0; b < blocks && count > 0; ++b) {
    const size_t stride = device.num_elements() / blocks;
    copy(stream, host.elements(b * count, {count}), device.elements(b * stride + first, {count}));
  }
}

// Copies such elements from host memory back to the parts of a device buffer.
void copy_in(Stream& stream, TensorView device, ConstTensorView host, size_t blocks, size_t first,
             size_t count) {
  for (size_t b = 0; b < blocks && count > 0; ++b) {
    const size_t stride = device.num_elements() / blocks;
    copy(stream, device.elements(b * stride + first, {count}), host.elements(b * count, {count}));
  }
}

}  // namespace

std::unique_ptr<Transport> StagedTransport::make(std::unique_ptr<Transport> host, DeviceType device,
                                                 size_t staging_bytes) {
  if (host->size() == 1) return std::make_unique<OneRank>(device);
  return std::unique_ptr<Transport>(new StagedTransport(std::move(host), device, staging_bytes));
}

StagedTransport::StagedTransport(std::unique_ptr<Transport> host, DeviceType device,
                                 size_t staging_bytes)
    : Transport(host->rank(), host->size(), device),
      host_(std::move(host)),
      staging_bytes_(std::max(staging_bytes, size() * sizeof(double))),
      memory_(DeviceType::cpu, "staging", 0, host_memory_for(device)),
      out_(pinned_area(memory_, staging_bytes_)),
      in_(pinned_area(memory_, staging_bytes_)),
      stream_(device) {}

std::unique_ptr<Transport> StagedTransport::split(size_t color) {
  return make(host_->split(color), device(), staging_bytes_);
}

void StagedTransport::give_up() {
  Transport::give_up();
  host_->give_up();
}

Moved StagedTransport::execute(const Request& request) {
  const ConstTensorView view = request.in.empty() ? request.out : request.in;
  if (view.device() == DeviceType::cpu) return host_->execute(request);
  if (request.collective == Collective::all_to_all) return all_to_all(request);
  const Blocks blocks = blocks_of(request.collective, size());
  const size_t n = request.in.empty() ? request.out.num_elements() / blocks.out
                                      : request.in.num_elements() / blocks.in;
  const size_t segment = staging_bytes_ / size_of(view.dtype()) / std::max(blocks.in, blocks.out);
  size_t first = 0;
  Moved moved;
  do {  // zero elements are a call too
    const size_t count = std::min(segment, n - first);
    moved += execute_segment(request, first, count);
    first += count;
  } while (first < n);
  return moved;
}

Moved StagedTransport::execute_segment(const Request& request, size_t first, size_t count) {
  const auto [in_blocks, out_blocks] = blocks_of(request.collective, size());
  const bool has_root =
      request.collective == Collective::broadcast || request.collective == Collective::reduce;
  const bool in_place = has_root || request.collective == Collective::all_reduce;
  const bool at_root = rank() == request.peer;
  const DType dtype = request.in.empty() ? request.out.dtype() : request.in.dtype();
  const TensorView in = area_view(in_, dtype, in_blocks, count);
  const TensorView out = in_place ? in : area_view(out_, dtype, out_blocks, count);

  if (request.collective != Collective::broadcast || at_root) {
    copy_out(stream_, in, request.in, in_blocks, first, count);
    stream_.synchronize();
  }
  const Moved moved =
      host_->execute({request.collective, out, in, request.peer, request.reduction});
  if (request.collective != Collective::reduce || at_root) {
    copy_in(stream_, request.out, out, out_blocks, first, count);
    stream_.synchronize();  // the area is used again
  }
  return moved;
}

Moved StagedTransport::all_to_all(const Request& request) {
  const PairCounts& counts = request.counts;
  const DType dtype = request.in.dtype();
  const size_t most = staging_bytes_ / size_of(dtype) / size(), own = rank();
  size_t first = 0;
  Moved moved;
  do {  // zero elements are a call too
    const PairCounts segment = counts.segment(first, most);
    const TensorView in = area_view(in_, dtype, 1, segment.sent(own));
    const TensorView out = area_view(out_, dtype, 1, segment.received(own));
    for (size_t r = 0; r < size(); ++r) {
      const size_t n = segment.of(own, r);
      if (n == 0) continue;
      copy(stream_, in.elements(segment.begin_sent(own, r), {n}),
           request.in.elements(counts.begin_sent(own, r) + first, {n}));
    }
    stream_.synchronize();
    Request on_host = {Collective::all_to_all, out, in};
    on_host.counts = segment;
    moved += host_->execute(on_host);
    for (size_t r = 0; r < size(); ++r) {
      const size_t n = segment.of(r, own);
      if (n == 0) continue;
      copy(stream_, request.out.elements(counts.begin_received(r, own) + first, {n}),
           out.elements(segment.begin_received(r, own), {n}));
    }
    stream_.synchronize();  // the area is used again
    first += most;
  } while (first < counts.largest());
  return moved;
}

}  // namespace ladder
