#include "lessons/13_sequence_parallel/tokens.h"

#include <utility>
#include <vector>

#include "common/model/slices.h"
#include "common/train/flags/flag_table.h"
#include "kernels/elementwise.h"

namespace ladder {
namespace {

// Where the parameters lie that are not split.
std::vector<FlatRange> partial_ranges(const Layout& layout) {
  return flat_ranges(layout, [](const Parameter& parameter) { return !parameter.split; });
}

constexpr CallOptions kActivation = {.purpose = Purpose::activation};

// Returns all rows with their padding, for which there is memory.
TensorView padded(TensorView all, const RowSplit& split) {
  return TensorView(all.data(), all.dtype(), all.device(),
                    all.shape().with_rows(split.padded(all.shape()[0])));
}

// Begins to gather the rows of all ranks into `all`. `own` has this rank's rows.
TensorParallel::Pending begin_gather(Stream& stream, Communicator& ranks, TensorView all,
                                     ConstTensorView own) {
  const RowSplit split = {ranks.rank(), ranks.size()};
  const size_t most = split.most(all.shape()[0]), count = split.count(all.shape()[0]);
  const TensorView gathered = padded(all, split), here = gathered.rows(split.rank * most, most);
  if (count > 0 && own.data() != here.data()) copy(stream, here.rows(0, count), own);
  return {all, ranks.all_gather(stream, gathered, here, kActivation)};
}

// Begins to sum `partial` over the ranks. Each gets the sums of its own rows, where these lie.
TensorParallel::Pending begin_scatter(Stream& stream, Communicator& ranks, TensorView partial) {
  const RowSplit split = {ranks.rank(), ranks.size()};
  const size_t most = split.most(partial.shape()[0]);
  const TensorView all = padded(partial, split), sums = all.rows(split.rank * most, most);
  Work work = ranks.reduce_scatter(stream, sums, all, kActivation);
  return {sums.rows(0, split.count(partial.shape()[0])), std::move(work)};
}

ConstTensorView arrived(Stream& stream, TensorParallel::Pending pending) {
  pending.work.wait(stream);
  return pending.rows;
}

}  // namespace

void TokenFlags::add_to(FlagTable& flags) {
  flags.heading("Sequence parallel");
  flags.add("--gathered", gathered,
            "The gathered inputs of split layers: again = gather them again in backward, keep "
            "= keep them [again]",
            CLI::IsMember({"again", "keep"}));
}

void check_tokens(const RunConfig& config, size_t tensor_size, const TokenFlags& flags) {
  if (flags.keeps() && config.recompute.name != "none") {
    throw UserError(concat("--gathered keep with --recompute ", config.recompute.name,
                           ": one keeps more and the other less; choose one of them"));
  }
  const size_t batch = config.micro_batch_size, tokens = config.model.sequence_length;
  const RowSplit last = {tensor_size - 1, tensor_size};
  if (last.count(batch * tokens) > 0) return;
  throw UserError(concat("--micro-batch-size ", batch, ": ", counted(batch, "sequence"), " of ",
                         counted(tokens, "token"), ", of which each of ", tensor_size,
                         " ranks takes ", last.most(batch * tokens),
                         ": nothing is left for the last one"));
}

TensorParallel sequence_parallel_on(Communicator& ranks) {
  if (ranks.size() == 1) return {};
  TensorParallel points;
  const RowSplit split = points.residual = {ranks.rank(), ranks.size()};
  const auto is_kept = [](ConstTensorView in, TensorView gathered) {
    return in.shape() == gathered.shape();
  };
  points.enter = [=, &ranks](Stream& stream, TensorView in, TensorView gathered) {
    if (!is_kept(in, gathered)) return arrived(stream, begin_gather(stream, ranks, gathered, in));
    const size_t rows = in.shape()[0];
    const TensorView own = in.rows(split.first(rows), split.count(rows));
    return arrived(stream, begin_gather(stream, ranks, in, own));
  };
  points.enter_again = [=, &ranks](Stream& stream, ConstTensorView in, TensorView gathered) {
    if (is_kept(in, gathered)) return TensorParallel::Pending{in};
    return begin_gather(stream, ranks, gathered, in);
  };
  points.enter_backward = [&ranks](Stream& stream, TensorView d_in) {
    return begin_scatter(stream, ranks, d_in);
  };
  points.leave = [&ranks](Stream& stream, TensorView partial) {
    return arrived(stream, begin_scatter(stream, ranks, partial));
  };
  points.leave_backward = [&ranks](Stream& stream, ConstTensorView d_out, TensorView gathered) {
    return arrived(stream, begin_gather(stream, ranks, gathered, d_out));
  };
  points.reduce_statistics = [&ranks](Stream& stream, TensorView statistics, Reduction reduction) {
    const CallOptions options = {.purpose = Purpose::activation, .reduction = reduction};
    ranks.all_reduce(stream, statistics, options).wait(stream);
  };
  return points;
}

void sum_partial_gradients(Stream& stream, const Layout& layout, TensorView gradients,
                           Communicator& ranks) {
  if (ranks.size() == 1) return;
  std::vector<Work> sums;
  for (const FlatRange& range : partial_ranges(layout.trained())) {
    const TensorView partial = gradients.rows(range.first, range.count);
    sums.push_back(ranks.all_reduce(stream, partial, {.purpose = Purpose::gradient}));
  }
  for (Work& sum : sums) sum.wait(stream);
}

}  // namespace ladder
