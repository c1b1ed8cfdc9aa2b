// Runs drawn at random, of all lessons: in fp64 lesson 01's gradients, parameters and moments, and
// memory and bytes as predicted. A run that fails is repeated by its number:
//   bazel test //tests/lessons:random_test --test_env=LADDER_CASES=57-57

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>

#include "common/train/flags/options.h"
#include "tests/catch.h"
#include "tests/delays.h"
#include "tests/lessons/all_trainers.h"
#include "tests/lessons/drawn_runs.h"
#include "tests/lessons/examples.h"
#include "tests/lessons/sharded.h"
#include "tests/sample.h"

namespace ladder {
namespace {

using namespace testing;

// What the command line of a run says.
template <class T>
struct Parsed {
  typename T::Flags flags;
  RunConfig config;
};

// Parses the run's flags as its program does. Throws UserError if the lesson refuses them.
template <class T>
Parsed<T> parse(const DrawnRun& run) {
  Parsed<T> parsed;
  Options options(T::kLesson.info, [&](FlagTable& table) { parsed.flags.add_to(table); });
  std::vector<const char*> words = {T::kLesson.info.name};
  for (const std::string& flag : run.flags) words.push_back(flag.c_str());
  options.parse(static_cast<int>(words.size()), words.data());
  const Program program = make_program<T>(parsed.flags);
  parsed.config = options.resolve(program.grid(run.num_ranks, 0));
  if (program.adjust) program.adjust(parsed.config);
  const Program planned = program.planned(parsed.config, program.grid(run.num_ranks, 0));
  for (size_t rank = 0; rank < run.num_ranks; ++rank) {
    predict(planned, parsed.config, program.grid(run.num_ranks, rank));
  }
  return parsed;
}

// The oracle: one rank, which keeps all activations. Experts have one of their own.
template <class T>
Record oracle_of(Parsed<T> parsed) {
  parsed.config.recompute = {};
  parsed.config.offload_activations = false;
  if constexpr (std::is_same_v<T, ExpertParallelTrainer>) {
    parsed.flags.experts.parallel_size = 1;
    parsed.config.micro_batch_size = parsed.config.global_batch_size;
    Communicator alone{std::make_unique<OneRank>()};
    return record_run<T>(parsed.config, alone, nullptr, parsed.flags);
  } else {
    return record_oracle(parsed.config);
  }
}

// All ranks of the world call it; those that the run does not need wait for the others. Where all
// take part their memory is registered: registrations are collective over the node.
template <class T>
void check_run(const DrawnRun& run, const Parsed<T>& parsed, uint64_t number) {
  NodeMemory node_memory(world());
  const auto all =
      make_communicator(world(), run.shares_memory ? &node_memory : nullptr, run.connection);
  const bool takes_part = all->rank() < run.num_ranks;
  const auto group = all->split(takes_part ? 0 : 1);
  if (!takes_part) return;
  const bool registers = run.shares_memory && run.num_ranks == all->size();
  set_delays(run.is_held_back ? number : 0, all->rank());
  const Record record =
      record_run<T>(parsed.config, *group, registers ? &node_memory : nullptr, parsed.flags);
  set_delays(0, 0);
  require_as_predicted(record);
  if (group->rank() > 0) return;
  require_none(
      differences(oracle_of<T>(parsed), record, bounds_for(DType::fp64), parsed.config.optimizer));
}

// Every third run is on examples, of which any number of tokens count. (A masked objective chooses
// its own targets.)
template <class T>
class WithExamples {
 public:
  WithExamples(const Parsed<T>& parsed, uint64_t number) {
    if (number % 3 > 0 || parsed.config.model.is_masked()) return;
    corpus_.emplace(corpus_of_examples(parsed.config, number));
    given_corpus = &*corpus_;
  }
  ~WithExamples() { given_corpus = nullptr; }
  WithExamples(const WithExamples&) = delete;

 private:
  std::optional<Corpus> corpus_;
};

// Returns whether the run ran: if not, the lesson has refused it.
template <class T>
bool run_by(const DrawnRun& run, uint64_t number) {
  std::optional<Parsed<T>> parsed;
  try {
    parsed = parse<T>(run);
  } catch (const UserError&) {
    return false;
  }
  const WithExamples<T> with_examples(*parsed, number);
  check_run<T>(run, *parsed, number);
  return true;
}

TEST_CASE("runs drawn at random compute what lesson 01 computes") {
  REQUIRE(world().size() == 8);
  for_random_cases(100, [](size_t number) {
    for (uint32_t attempt = 0;; ++attempt) {
      REQUIRE(attempt < 100);  // lessons refuse less than half of all
      const DrawnRun run = draw_run(static_cast<uint32_t>(number), attempt);
      INFO("number " << number << ": " << run.text());
      if (of_trainer(run.lesson, [&]<class T>() { return run_by<T>(run, number); })) return;
    }
  });
}

}  // namespace
}  // namespace ladder
