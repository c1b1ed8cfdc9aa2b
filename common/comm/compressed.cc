#include "common/comm/compressed.h"

#include <algorithm>
#include <utility>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

size_t blocks_of(const Codec& codec, size_t elements) {
  return (elements + codec.block_size - 1) / codec.block_size;
}

// Returns the blocks of a slice.
size_t slice_blocks(const Codec& codec, size_t elements, size_t size) {
  return (blocks_of(codec, elements) + size - 1) / size;
}

// Returns area `which` of two, as `rows` rows of `words` words.
TensorView area_of(const Tensor& areas, size_t which, size_t rows, size_t words) {
  return areas.view().elements(which * areas.shape()[1], {rows, words});
}

}  // namespace

size_t CompressedSum::slice_elements(const Codec& codec, size_t elements, size_t size) {
  return slice_blocks(codec, elements, size) * codec.block_size;
}

size_t CompressedSum::own_elements(const Codec& codec, size_t elements, size_t size, size_t rank) {
  const size_t slice = slice_elements(codec, elements, size);
  return std::min(slice, elements - std::min(elements, rank * slice));
}

size_t CompressedSum::payload_bytes(const Codec& codec, size_t elements, size_t size) {
  return size * encoded_words(codec, slice_elements(codec, elements, size)) * sizeof(int32_t);
}

CompressedAreas::CompressedAreas(Memory& memory, MemorySource* source, const Codec& codec,
                                 DType dtype, size_t elements, size_t size, size_t segment_elements)
    : size_(size),
      segment_blocks_(std::clamp<size_t>(segment_elements / size / codec.block_size, 1,
                                         std::max<size_t>(1, slice_blocks(codec, elements, size)))),
      segment_words_(encoded_words(codec, segment_blocks_ * codec.block_size)) {
  if (size == 1) return;
  const auto make = [&] {
    return Tensor(memory, Category::communication, DType::int32, {2, size * segment_words_},
                  source);
  };
  out_ = make();
  in_ = make();
  sums_ = make();
  sum_ = Tensor(memory, Category::communication, dtype, {segment_blocks_ * codec.block_size});
}

CompressedSum::CompressedSum(CompressedAreas& areas, TensorView buffer, const Options& options)
    : areas_(areas),
      buffer_(buffer),
      options_(options),
      slice_(slice_elements(options.codec, buffer.num_elements(), areas.size_)) {}

size_t CompressedSum::num_segments() const {
  const size_t blocks = slice_ / codec().block_size;
  return (blocks + areas_.segment_blocks_ - 1) / areas_.segment_blocks_;
}

CompressedSum::Segment CompressedSum::segment(size_t index) const {
  const size_t most = areas_.segment_blocks_ * codec().block_size, first = index * most;
  const size_t elements = std::min(most, slice_ - first);
  return {first, elements, encoded_words(codec(), elements), index % 2};
}

TensorView CompressedSum::part(const Segment& segment, size_t rank) const {
  const size_t n = buffer_.num_elements(), first = std::min(n, rank * slice_ + segment.first);
  return buffer_.elements(first, {std::min(segment.elements, n - first)});
}

// Every number of a run has a random number of its own: by element, round, rank and step.
Rounding CompressedSum::rounding(size_t first, size_t rank, bool of_sum) const {
  Rounding rounding = options_.rounding;
  rounding.stream = round_ << 32 | rank << 1 | (of_sum ? 1 : 0);
  rounding.first += first;
  return rounding;
}

void CompressedSum::encode_own(Stream& stream, const Segment& segment, const Transport& transport) {
  const TensorView area = area_of(areas_.out_, segment.area, transport.size(), segment.words);
  for (size_t r = 0; r < transport.size(); ++r) {
    const TensorView in = part(segment, r);
    const size_t n = in.num_elements(), first = r * slice_ + segment.first;
    if (n == 0) continue;
    encode(stream, area.elements(r * segment.words, {encoded_words(codec(), n)}),
           options_.sent.empty() ? TensorView() : options_.sent.elements(first, {n}), in, codec(),
           rounding(first, transport.rank(), false));
  }
}

void CompressedSum::add_up(Stream& stream, const Segment& segment, const Transport& transport) {
  const size_t size = transport.size(), rank = transport.rank();
  const size_t n = part(segment, rank).num_elements();
  if (n == 0) return;
  const TensorView sum = areas_.sum_.view().rows(0, n);
  decode_sum(stream, sum, area_of(areas_.in_, segment.area, size, segment.words), codec());
  const TensorView area = area_of(areas_.sums_, segment.area, size, segment.words);
  encode(stream, area.elements(rank * segment.words, {encoded_words(codec(), n)}),
         options_.owned.empty() ? TensorView() : options_.owned.elements(segment.first, {n}), sum,
         codec(), rounding(rank * slice_ + segment.first, rank, true));
}

void CompressedSum::decode(Stream& stream, const Segment& segment, const Transport& transport) {
  const TensorView area = area_of(areas_.sums_, segment.area, transport.size(), segment.words);
  for (size_t r = 0; r < transport.size(); ++r) {
    const TensorView out = part(segment, r);
    if (out.num_elements() > 0) decode_sum(stream, out, area.rows(r, 1), codec());
  }
}

Request CompressedSum::scatter(const Segment& segment, const Transport& transport) const {
  const size_t words = transport.size() * segment.words;
  Request request = {Collective::all_to_all,
                     area_of(areas_.in_, segment.area, 1, words).reshape({words}),
                     area_of(areas_.out_, segment.area, 1, words).reshape({words})};
  request.counts = PairCounts(transport.size(), segment.words);
  return request;
}

Request CompressedSum::gather(const Segment& segment, const Transport& transport) const {
  const size_t words = transport.size() * segment.words;
  const TensorView all = area_of(areas_.sums_, segment.area, 1, words).reshape({words});
  return {Collective::all_gather, all, all.rows(transport.rank() * segment.words, segment.words)};
}

void CompressedSum::enqueue(Transport& transport, Stream& queue) {
  if (transport.size() == 1) return;
  for (size_t i = 0; i < num_segments(); ++i) {
    const Segment now = segment(i);
    encode_own(queue, now, transport);
    transport.enqueue(scatter(now, transport), queue);
    add_up(queue, now, transport);
    transport.enqueue(gather(now, transport), queue);
    decode(queue, now, transport);
  }
}

Moved CompressedSum::execute(Transport& transport) {
  if (transport.size() == 1) return {};
  if (!areas_.stream_) areas_.stream_.emplace(buffer_.device());
  Stream& stream = *areas_.stream_;
  const size_t count = num_segments();
  if (count > 1 && !areas_.messenger_) {
    areas_.messenger_ = std::make_unique<Worker>(buffer_.device());
  }
  areas_.moved_ = {};
  // Communicates while this thread goes on, unless there is nothing to go on with.
  const auto start = [&](const Request& request) {
    stream.synchronize();
    const auto run = [this, &transport, request] { areas_.moved_ += transport.execute(request); };
    if (count > 1) return areas_.messenger_->start(Worker::Kind::other, run, [](double) {});
    run();
    return Work();
  };
  // Segment i is encoded while segment i - 1 travels to its owners, and segment i - 2 from them.
  Work scatters[2], gathers[2];
  for (size_t i = 0; i < count + 2; ++i) {
    if (i < count) {
      encode_own(stream, segment(i), transport);
      scatters[i % 2] = start(scatter(segment(i), transport));
    }
    if (i >= 1 && i <= count) {
      scatters[(i - 1) % 2].wait(stream);
      add_up(stream, segment(i - 1), transport);
      gathers[(i - 1) % 2] = start(gather(segment(i - 1), transport));
    }
    if (i >= 2) {
      gathers[i % 2].wait(stream);
      decode(stream, segment(i - 2), transport);
    }
  }
  stream.synchronize();
  return areas_.moved_;
}

}  // namespace ladder
