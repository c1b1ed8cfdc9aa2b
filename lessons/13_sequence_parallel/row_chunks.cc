#include "lessons/13_sequence_parallel/row_chunks.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/train/ranks.h"
#include "kernels/elementwise.h"

namespace ladder {
namespace {

// Operations that are waited for together.
class AllOf final : public Work::State {
 public:
  explicit AllOf(std::vector<Work> works) : works_(std::move(works)) {}
  void wait(Stream& stream) override {
    for (Work& work : works_) work.wait(stream);
  }

 private:
  std::vector<Work> works_;
};

Work all_of(std::vector<Work> works) { return Work(std::make_shared<AllOf>(std::move(works))); }

}  // namespace

RowChunks::RowChunks(const TrainerContext& context, Communicator& ranks, size_t num_rows,
                     size_t num_chunks)
    : ranks_(ranks),
      split_{ranks.rank(), ranks.size(), num_chunks},
      options_{.purpose = Purpose::activation, .background = num_chunks > 1} {
  if (num_chunks == 1) return;
  own_sums_ =
      Tensor(context.device_memory, Category::workspace, context.config.dtype,
             {split_.most(num_rows) * context.config.model.hidden}, context.ranks->registered);
}

TensorView RowChunks::padded(TensorView all, size_t chunk) const {
  const size_t num_rows = all.shape()[0], count = split_.size * split_.piece(num_rows);
  const Shape shape = all.shape().with_rows(split_.padded(num_rows));
  return TensorView(all.data(), all.dtype(), all.device(), shape).rows(chunk * count, count);
}

RowChunk RowChunks::chunk_of(size_t num_rows, size_t chunk) const {
  const size_t most = split_.size * split_.piece(num_rows);
  const size_t first = std::min(num_rows, chunk * most);
  return {first, std::min(most, num_rows - first)};
}

Work RowChunks::begin_gather(Stream& stream, TensorView all, ConstTensorView own,
                             size_t chunk) const {
  const size_t num_rows = all.shape()[0], piece = split_.piece(num_rows);
  const TensorView room = padded(all, chunk), part = room.rows(split_.rank * piece, piece);
  if (const size_t count = split_.count_in(num_rows, chunk); count > 0) {
    const ConstTensorView rows = own.rows(chunk * piece, count);
    if (rows.data() != part.data()) copy(stream, part.rows(0, count), rows);
  }
  return ranks_.all_gather(stream, room, part, options_);
}

ConstTensorView RowChunks::gather(Stream& stream, TensorView all, ConstTensorView own,
                                  const TensorParallel::WithRows& use) const {
  std::vector<Work> works;
  for (size_t chunk = 0; chunk < split_.chunks; ++chunk) {
    works.push_back(begin_gather(stream, all, own, chunk));
  }
  for (size_t chunk = 0; chunk < split_.chunks; ++chunk) {
    works[chunk].wait(stream);
    const RowChunk rows = chunk_of(all.shape()[0], chunk);
    if (rows.count > 0) use(rows, rows.of(all));
  }
  return all;
}

TensorParallel::Coming RowChunks::begin_gather(Stream& stream, TensorView all,
                                               ConstTensorView own) const {
  std::vector<Work> works;
  for (size_t chunk = 0; chunk < split_.chunks; ++chunk) {
    works.push_back(begin_gather(stream, all, own, chunk));
  }
  return {all, all_of(std::move(works))};
}

TensorParallel::Coming RowChunks::begin_scatter(Stream& stream, TensorView partial,
                                                const TensorParallel::MakeRows& make) const {
  const size_t num_rows = partial.shape()[0], piece = split_.piece(num_rows);
  // In a chunk that is not the first, sums could not take the place of this rank's rows, or they
  // would not lie one after the other.
  const TensorView sums =
      split_.chunks == 1
          ? padded(partial, 0).rows(split_.rank * piece, piece)
          : own_sums_.view().elements(0, partial.shape().with_rows(split_.most(num_rows)));
  std::vector<Work> works;
  for (size_t chunk = 0; chunk < split_.chunks; ++chunk) {
    const RowChunk rows = chunk_of(num_rows, chunk);
    if (rows.count > 0) make(rows);
    works.push_back(ranks_.reduce_scatter(stream, sums.rows(chunk * piece, piece),
                                          padded(partial, chunk), options_));
  }
  return {sums.rows(0, split_.count(num_rows)), all_of(std::move(works))};
}

}  // namespace ladder
