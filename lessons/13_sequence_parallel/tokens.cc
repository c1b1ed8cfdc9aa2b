#include "lessons/13_sequence_parallel/tokens.h"

#include <memory>
#include <vector>

#include "common/model/classifier.h"
#include "common/train/validators.h"
#include "lessons/13_sequence_parallel/row_chunks.h"

namespace ladder {
namespace {

// A part of the flat buffer: parameters that are not split and lie one after the other.
struct Run {
  size_t first, count;
};

std::vector<Run> partial_runs(const Layout& layout) {
  std::vector<Run> runs;
  for (const Unit& unit : layout.units()) {
    for (const Parameter& parameter : unit.parameters) {
      if (parameter.split) continue;
      const size_t first = unit.offset + parameter.offset, count = parameter.shape.num_elements();
      if (!runs.empty() && runs.back().first + runs.back().count == first) {
        runs.back().count += count;
      } else {
        runs.push_back({first, count});
      }
    }
  }
  return runs;
}

// Throws UserError unless there is a row in each chunk.
void check_chunks(size_t num_rows, size_t tensor_size, const TokenFlags& flags) {
  const auto fills = [&](size_t chunks) {
    const RowSplit first = {0, tensor_size, chunks};
    return first.count_in(num_rows, chunks - 1) > 0;
  };
  if (fills(flags.overlap_chunks)) return;
  size_t works = flags.overlap_chunks;
  while (!fills(works)) --works;
  throw UserError(concat("--overlap-chunks ", flags.overlap_chunks, ": ", num_rows,
                         " rows of a micro-batch on ", tensor_size,
                         " ranks cannot be cut into so many; ", works, " would do"));
}

}  // namespace

void TokenFlags::add_to(CLI::App& app, const char* group) {
  app.add_option("--gathered", gathered,
                 "The gathered inputs of split layers: again = gather them again in backward, keep "
                 "= keep them [again]")
      ->check(CLI::IsMember({"again", "keep"}))
      ->group(group);
  app.add_option("--overlap-chunks", overlap_chunks,
                 "Chunks of rows; a product works on one while the next is gathered [1]")
      ->check(whole(1, 1'000))
      ->group(group);
}

void check_tokens(const RunConfig& config, size_t tensor_size, const TokenFlags& flags) {
  if (flags.keeps() && config.recompute.name != "none") {
    throw UserError(concat("--gathered keep with --recompute ", config.recompute.name,
                           ": one keeps more and the other less; choose one of them"));
  }
  if (flags.keeps() && flags.overlap_chunks > 1) {
    throw UserError(concat("--gathered keep with --overlap-chunks ", flags.overlap_chunks,
                           ": kept rows are gathered in one piece; take --gathered again"));
  }
  const size_t batch = config.micro_batch_size, tokens = config.model.sequence_length;
  const RowSplit last = {tensor_size - 1, tensor_size};
  if (last.count(batch * tokens) > 0) return check_chunks(batch * tokens, tensor_size, flags);
  throw UserError(concat("--micro-batch-size ", batch, ": ", counted(batch, "sequence"), " of ",
                         counted(tokens, "token"), ", of which each of ", tensor_size,
                         " ranks takes ", last.most(batch * tokens),
                         ": nothing is left for the last one"));
}

TensorParallel sequence_parallel_on(const TrainerContext& context, Communicator& ranks,
                                    size_t num_rows, size_t num_chunks) {
  if (ranks.size() == 1) return {};
  const auto chunks = std::make_shared<RowChunks>(context, ranks, num_rows, num_chunks);
  const RowSplit split = chunks->split();
  TensorParallel points;
  points.residual = split;
  const auto is_kept = [](ConstTensorView in, TensorView room) {
    return in.shape() == room.shape();
  };
  points.enter = [=](Stream& stream, TensorView in, TensorView room, const auto& multiply) {
    if (!is_kept(in, room)) return chunks->gather(stream, room, in, multiply);
    const size_t rows = in.shape()[0];
    const TensorView own = in.rows(split.first(rows), split.count(rows));
    return chunks->gather(stream, in, own, multiply);
  };
  points.enter_again = [=](Stream& stream, ConstTensorView in, TensorView room) {
    if (is_kept(in, room)) return TensorParallel::Coming{in};
    return chunks->begin_gather(stream, room, in);
  };
  points.enter_backward = [=](Stream& stream, TensorView d_in) {
    return chunks->begin_scatter(stream, d_in);
  };
  points.leave = [=](Stream& stream, TensorView partial, const auto& multiply) {
    TensorParallel::Coming sum = chunks->begin_scatter(stream, partial, multiply);
    sum.work.wait(stream);
    return sum.rows;
  };
  points.leave_backward = [=](Stream& stream, ConstTensorView d_out, TensorView room,
                              const auto& multiply) {
    return chunks->gather(stream, room, d_out, multiply);
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
  for (const Run& run : partial_runs(layout)) {
    const TensorView partial = gradients.rows(run.first, run.count);
    sums.push_back(ranks.all_reduce(stream, partial, {.purpose = Purpose::gradient}));
  }
  for (Work& sum : sums) sum.wait(stream);
}

TrafficEntries sequence_traffic(const RunConfig& config, const Layout& layout,
                                size_t num_micro_batches, size_t num_in_flight, bool in_halves) {
  const size_t rows = config.micro_batch_size * config.model.sequence_length;
  const size_t num_blocks = layout.count(OperationKind::block);
  // How often R C elements. For the gradients of weights two of a block are gathered again.
  size_t scatters = 0, gathers = layout.part().keeps_gathered ? 0 : 2 * num_blocks;
  if (in_halves) gathers += 2 * num_blocks;
  for (const Operation& operation : layout.operations()) {
    scatters += operation.tensor_sums;
    gathers += operation.tensor_sums;
  }
  const RecomputePlan recompute = plan_recompute(config.recompute, num_blocks, num_in_flight);
  for (size_t block = 0; block < num_blocks; ++block) {
    const BlockOperations again = recompute.recomputed(block);
    gathers += (again & in_all_sublayers(SublayerOperation::first)).count();
    scatters += (again & in_all_sublayers(SublayerOperation::second)).count();
  }
  const auto of_rows = [&](size_t calls) {
    const size_t padded = layout.part().residual().padded(rows);
    const size_t bytes = padded * config.model.hidden * size_of(config.dtype);
    return Traffic{.calls = calls * layout.part().residual().chunks, .payload_bytes = calls * bytes}
        .times(num_micro_batches);
  };
  TrafficEntries traffic;
  traffic[{Purpose::activation, Collective::reduce_scatter, Axis::tensor}] = of_rows(scatters);
  traffic[{Purpose::activation, Collective::all_gather, Axis::tensor}] = of_rows(gathers);
  if (layout.has(OperationKind::classifier)) {
    const size_t most = classifier_rows(config.device), row_blocks = (rows + most - 1) / most;
    const size_t bytes = 3 * rows * size_of(config.accumulation());
    traffic[{Purpose::activation, Collective::all_reduce, Axis::tensor}] =
        Traffic{.calls = 2 * row_blocks, .payload_bytes = bytes}.times(num_micro_batches);
  }
  return traffic;
}

TrafficEntries partial_gradient_traffic(const RunConfig& config, const Layout& layout) {
  Traffic partial;
  for (const Run& run : partial_runs(layout)) {
    partial += {.calls = 1, .payload_bytes = run.count * size_of(config.accumulation())};
  }
  return {{{Purpose::gradient, Collective::all_reduce, Axis::tensor}, partial}};
}

}  // namespace ladder
