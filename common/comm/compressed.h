// Sums over ranks that travel encoded: an all_reduce that moves a quarter, or a thirtieth, of the
// bytes.
#pragma once

#include <memory>
#include <optional>

#include "common/comm/transport.h"
#include "common/comm/worker.h"
#include "kernels/codec.h"

namespace ladder {

// Memory for the segments of all sums of a communicator, which run one after the other.
class CompressedAreas;

// A CompressedSum is the all_reduce of one buffer, call after call, and what it keeps from one call
// to the next: the error feedback. [Seide14, Karimireddy19]
//
// The buffer's n elements are divided among the N ranks by whole blocks of the codec: rank r owns
// slice r, which has `slice_elements` elements, or what is left for the last ranks. A call
//   1. encodes this rank's elements: those of slice r for rank r, of its own slice for itself;
//   2. sends them: an all_to_all of words;
//   3. decodes what all ranks have sent of slice r on rank r, its owner, adds it up in rank order,
//      in the buffer's dtype, and encodes the sum once;
//   4. sends it to all: an all_gather of words;
//   5. decodes the sums of all slices into the buffer. The owner decodes its sum too, so all ranks
//      have the same bits.
// What encoding leaves out in steps 1 and 3 is added to the numbers of the next call if there is
// feedback. The bits do not depend on the transport, nor on the size of the segments.
//
// Every rank puts the same number of bytes on the wire, (N - 1) / N of payload_bytes() for each of
// the two steps. On one rank nothing is sent, and nothing is encoded.
class CompressedSum {
 public:
  struct Options {
    Codec codec = {};
    Rounding rounding = {};  // its `stream` and `first` say nothing here
    // What is held back, or empty views. `sent` has n elements and `owned` those of own_elements().
    TensorView sent = {}, owned = {};
  };

  // The elements of a slice when `elements` are divided among `size` ranks, and those of slice
  // `rank`.
  static size_t slice_elements(const Codec& codec, size_t elements, size_t size);
  static size_t own_elements(const Codec& codec, size_t elements, size_t size, size_t rank);
  // The bytes of all slices, encoded.
  static size_t payload_bytes(const Codec& codec, size_t elements, size_t size);

  // `areas` must outlive this object, and both must outlive the calls.
  CompressedSum(CompressedAreas& areas, TensorView buffer, const Options& options);

  TensorView buffer() const { return buffer_; }
  const Codec& codec() const { return options_.codec; }
  // Chooses the random numbers of the next calls, for stochastic rounding.
  void set_round(uint64_t round) { round_ = round; }

  // Runs the sum to its end in the calling thread, except that a thread of the areas communicates
  // while this one encodes and decodes. Returns what this rank has moved. For Communicator.
  Moved execute(Transport& transport);
  // Queues the sum. REQUIRES: transport.queues(). For Communicator.
  void enqueue(Transport& transport, Stream& queue);

 private:
  // A segment is the same blocks of every slice.
  struct Segment {
    size_t first, elements;  // of each slice
    size_t words;            // of each slice, encoded
    size_t area;             // which of the areas it uses
  };
  Segment segment(size_t index) const;
  size_t num_segments() const;
  // The elements of a segment in slice `rank`, as far as the buffer goes, and where they begin in
  // it.
  TensorView part(const Segment& segment, size_t rank) const;
  void encode_own(Stream& stream, const Segment& segment, const Transport& transport);
  void add_up(Stream& stream, const Segment& segment, const Transport& transport);
  void decode(Stream& stream, const Segment& segment, const Transport& transport);
  Request scatter(const Segment& segment, const Transport& transport) const;
  Request gather(const Segment& segment, const Transport& transport) const;
  Rounding rounding(size_t first, size_t rank, bool of_sum) const;

  CompressedAreas& areas_;
  TensorView buffer_;
  Options options_;
  size_t slice_;
  uint64_t round_ = 0;
};

// Two areas, so that one segment travels while the next is encoded.
class CompressedAreas {
 public:
  // A segment has at most this many elements of all slices together.
  static constexpr size_t kSegmentElements = size_t{1} << 19;

  // Allocates for buffers of up to `elements` elements of `dtype` among `size` ranks. Words that
  // travel come from `source`, or from the arena's own if it is null. Category: communication. On
  // one rank it allocates nothing.
  CompressedAreas(Memory& memory, MemorySource* source, const Codec& codec, DType dtype,
                  size_t elements, size_t size, size_t segment_elements = kSegmentElements);

 private:
  friend class CompressedSum;

  size_t size_, segment_blocks_;       // blocks of a slice in a segment
  size_t segment_words_;               // words of a slice in a segment, at most
  Tensor out_, in_, sums_;             // (2, size, segment_words) each: sent, received; the sums
  Tensor sum_;                         // a slice's elements in a segment
  std::optional<Stream> stream_;       // of execute(), on the memory's device
  Moved moved_;                        // in the present call
  std::unique_ptr<Worker> messenger_;  // made when first needed; ends before the areas do
};

}  // namespace ladder
