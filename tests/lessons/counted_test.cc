// Tokens that do not count: the loss is the mean over all tokens of the global batch that do, for
// any division of it, however many of them each rank and each micro-batch has.

#include <cmath>
#include <set>

#include "common/data/batch.h"
#include "common/train/trainer/model_state.h"
#include "tests/catch.h"
#include "tests/lessons/all_trainers.h"
#include "tests/lessons/examples.h"
#include "tests/lessons/sharded.h"
#include "tests/sample.h"

namespace ladder {
namespace {

using namespace testing;

using Ints = std::vector<int32_t>;

constexpr uint64_t kSeed = 5;

RunConfig config_of(size_t micro_batch_size) { return split_config(DType::fp64, micro_batch_size); }

const Corpus& examples() {
  static const Corpus corpus = corpus_of_examples(config_of(1), kSeed);
  return corpus;
}

struct OnExamples {
  explicit OnExamples(const Corpus& corpus = examples()) { given_corpus = &corpus; }
  ~OnExamples() { given_corpus = nullptr; }
};

// How many targets of so many sequences count, as they are in the batch.
size_t counted_in_batch(const RunConfig& config, Split split, uint64_t step, size_t first,
                        size_t count) {
  Memory memory(DeviceType::cpu, "host", 0);
  const Shape shape = {count, config.model.sequence_length};
  const Tensor tokens(memory, Category::workspace, DType::int32, shape);
  const Tensor targets(memory, Category::workspace, DType::int32, shape);
  fill_batch(Session<SingleGpuTrainer>::corpus(), split, config.seed, step, first, tokens, targets);
  const std::span all(targets.view().as<int32_t>(), shape.num_elements());
  return all.size() - static_cast<size_t>(std::ranges::count(all, kIgnored));
}

TEST_CASE("every rank knows how many tokens of the global batch count") {
  const OnExamples on_examples;
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

// Validation losses of one batch, of two and so on, as all tokens that count in them give them.
template <class T>
void check_validation(size_t ranks, RunConfig config, size_t num_batches,
                      typename T::Flags flags = {}) {
  INFO(T::kLesson.info.name << " on " << ranks << " ranks, seed " << config.seed);
  const auto adjust = T::kLesson.adjust;
  if (adjust != nullptr) adjust(flags, config);
  Groups groups(ranks);
  Session<T> session(config, *groups.group, &groups.node_memory, flags);
  double sum = 0, count = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    const size_t added =
        counted_in_batch(config, Split::validation, batch, 0, config.global_batch_size);
    const double loss = session.trainer->evaluate(batch + 1);
    const double sum_before = sum;
    count += static_cast<double>(added);
    sum = loss * count;
    // What a batch adds is a mean of its tokens', which are near ln V at first. 10 of the last bits
    // of the sum may be lost.
    const double most_lost = 10 * 0x1p-52 * sum, of_batch = sum - sum_before;
    const double of_token = std::log(static_cast<double>(config.model.vocab_size));
    CHECK(of_batch >= 0.8 * of_token * static_cast<double>(added) - most_lost);
    CHECK(of_batch <= 1.2 * of_token * static_cast<double>(added) + most_lost);
    if (count == 0) CHECK(loss == 0);
  }
}

TEST_CASE("validation batches in which no token counts leave the validation loss as it is") {
  // Of the six examples for validation one counts, so that half of all batches of four have none.
  Examples rare;
  for (int32_t i = 0; i < 60; ++i) rare.add(Ints{1, i}, Ints{kIgnored, i == 9 ? 7 : kIgnored});
  const Corpus corpus = Corpus::of_examples("rare", std::move(rare), false);
  const OnExamples on_examples(corpus);
  size_t empty = 0, first_is_empty = 0;
  for_random_cases(4, [&](size_t seed) {
    RunConfig config = config_of(1);
    config.global_batch_size = 4;
    config.seed = seed;
    constexpr size_t kBatches = 5;
    for (size_t batch = 0; batch < kBatches; ++batch) {
      const bool is_empty = counted_in_batch(config, Split::validation, batch, 0, 4) == 0;
      empty += is_empty ? 1 : 0;
      first_is_empty += is_empty && batch == 0 ? 1 : 0;
    }
    check_validation<SingleGpuTrainer>(1, config, kBatches);
    check_validation<DdpTrainer>(4, config, kBatches);
    check_validation<Zero3Trainer>(4, config, kBatches);
    check_validation<TensorParallelTrainer>(4, config, kBatches);
    check_validation<PipelineTrainer>(4, config, kBatches);
    check_validation<ScheduleTrainer>(4, config, kBatches);
    check_validation<SequenceParallelTrainer>(2, config, kBatches);
    check_validation<ContextParallelTrainer>(4, config, kBatches);
    check_validation<ExpertParallelTrainer>(4, config, kBatches);
    ThreeDTrainer::Flags grid;
    grid.tensor_parallel_size = grid.pipeline.pipeline_parallel_size = 2;
    check_validation<ThreeDTrainer>(4, config, kBatches, grid);
  });
  CHECK(empty > 4);
  CHECK(first_is_empty > 0);
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
