// Tokens that do not count: the loss is the mean over all tokens of the global batch that do, for
// any division of it, however many of them each rank and each micro-batch has.

#include <set>

#include "common/data/batch.h"
#include "common/train/trainer/model_state.h"
#include "tests/catch.h"
#include "tests/lessons/all_trainers.h"
#include "tests/lessons/examples.h"
#include "tests/lessons/sharded.h"

namespace ladder {
namespace {

using namespace testing;

constexpr uint64_t kSeed = 5;

RunConfig config_of(size_t micro_batch_size) { return split_config(DType::fp64, micro_batch_size); }

const Corpus& examples() {
  static const Corpus corpus = corpus_of_examples(config_of(1), kSeed);
  return corpus;
}

struct OnExamples {
  OnExamples() { given_corpus = &examples(); }
  ~OnExamples() { given_corpus = nullptr; }
};

// How many targets of so many sequences count, as they are in the batch.
size_t counted_in_batch(const RunConfig& config, Split split, uint64_t step, size_t first,
                        size_t count) {
  Memory memory(DeviceType::cpu, "host", 0);
  const Shape shape = {count, config.model.sequence_length};
  const Tensor tokens(memory, Category::workspace, DType::int32, shape);
  const Tensor targets(memory, Category::workspace, DType::int32, shape);
  fill_batch(examples(), split, config.seed, step, first, tokens, targets);
  const std::span all(targets.view().as<int32_t>(), shape.num_elements());
  return all.size() - static_cast<size_t>(std::ranges::count(all, kIgnored));
}

TEST_CASE("every rank knows how many tokens of the global batch count") {
  const RunConfig config = config_of(1);
  for (const Split split : {Split::train, Split::validation}) {
    for (uint64_t step = 0; step < 20; ++step) {
      CHECK(counted_targets(examples(), split, config.seed, step, config.global_batch_size,
                            config.model.sequence_length) ==
            counted_in_batch(config, split, step, 0, config.global_batch_size));
    }
  }
}

template <class T>
void check(const Record& oracle, size_t ranks, size_t micro_batch_size,
           const typename T::Flags& flags = {}) {
  INFO(T::kLesson.info.name << " on " << ranks << " ranks, micro-batch " << micro_batch_size);
  const RunConfig config = config_of(micro_batch_size);
  Groups groups(ranks);
  const Record record = record_run<T>(config, *groups.group, &groups.node_memory, flags);
  require_as_predicted(record);
  if (groups.group->rank() > 0) return;
  require_none(differences(oracle, record, bounds_for(DType::fp64), config.optimizer));
}

TEST_CASE("any division gives the loss and gradients of one rank") {
  const OnExamples on_examples;
  const Record oracle = record_oracle(config_of(1));
  for (size_t micro_batch_size : {1, 3}) check<DdpTrainer>(oracle, 4, micro_batch_size);
  check<SingleGpuTrainer>(oracle, 1, 1);
  check<Zero3Trainer>(oracle, 4, 1);
  check<PipelineTrainer>(oracle, 4, 3);
  check<TensorParallelTrainer>(oracle, 4, 3);
  check<SequenceParallelTrainer>(oracle, 2, 3);
  ContextParallelTrainer::Flags context;
  for (const auto method : {ContextFlags::Method::ring, ContextFlags::Method::ulysses}) {
    context.context.attention = method;
    check<ContextParallelTrainer>(oracle, 4, 3, context);
  }
  ThreeDTrainer::Flags grid;
  grid.tensor_parallel_size = grid.pipeline.pipeline_parallel_size = 2;
  check<ThreeDTrainer>(oracle, 4, 3, grid);
}

// What trainers did until 2024: each rank, or each micro-batch, took a mean over its own tokens,
// and then the mean of these. [huggingface/transformers#34191]
TEST_CASE("the mean of micro-batches' means is another number") {
  const OnExamples on_examples;
  const RunConfig config = config_of(1);
  Communicator alone{std::make_unique<OneRank>()};
  Session<SingleGpuTrainer> session(config, alone, nullptr);
  const Layout layout(config.model, 1);
  ModelState& state = session.trainer->state();
  ModelRunner model({config, examples(), session.device, session.host, session.stream}, layout,
                    state.parameters, state.gradients);
  double sum = 0, of_means = 0, tokens = 0;
  std::set<size_t> counts;
  for (size_t row = 0; row < config.global_batch_size; ++row) {
    model.load(Split::train, 1, row);
    model.forward();
    model.evaluate();
    const double loss = model.total_loss();
    const size_t count = counted_in_batch(config, Split::train, 1, row, 1);
    counts.insert(count);
    if (count == 0) {
      CHECK(loss == 0);
      continue;
    }
    sum += loss;
    tokens += static_cast<double>(count);
    of_means += loss / static_cast<double>(count) / static_cast<double>(config.global_batch_size);
  }
  CHECK(counts.size() > 5);  // rows differ, and there are micro-batches in which nothing counts
  CHECK(counts.contains(0));
  CHECK(tokens == model.counted_tokens(Split::train, 1));
  const double loss = session.trainer->step().loss;
  CHECK(std::abs(loss - sum / tokens) < 1e-12 * loss);
  CHECK(std::abs(loss - of_means) > 0.1 * loss);
}

}  // namespace
}  // namespace ladder
