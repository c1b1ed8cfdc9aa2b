// What tensor-parallel ranks cannot split is refused with the same words wherever it is asked for.

#include <random>

#include "common/model/divisible.h"
#include "common/schedule/rank_layout.h"
#include "common/train/program/prediction.h"
#include "common/train/run/simulated_rank.h"
#include "lessons/07_tensor_parallel/trainer.h"
#include "lessons/09_3d_parallel/trainer.h"
#include "lessons/13_sequence_parallel/trainer.h"
#include "lessons/19_planning/candidate.h"
#include "tests/catch.h"
#include "tests/sample.h"

namespace ladder {
namespace {

// Returns the refusal without what was asked for, or "" if there is none.
template <class Body>
std::string refusal(Body body) {
  try {
    body();
  } catch (const UserError& error) {
    const std::string text = error.what();
    return text.substr(text.find(": ") + 2);
  }
  return "";
}

template <class T>
std::string refusal_of(const ModelConfig& model, size_t tensor_size) {
  const Program program = make_program<T>();
  std::vector<std::string> flags = {"--layers",
                                    concat(model.num_layers),
                                    "--heads",
                                    concat(model.num_heads),
                                    "--hidden",
                                    concat(model.hidden),
                                    "--ffn",
                                    concat(model.ffn),
                                    "--vocab",
                                    concat(model.vocab_size),
                                    "--sequence-length",
                                    "8"};
  if (std::string(T::kLesson.info.name) == "09_3d_parallel") {
    flags.insert(flags.end(), {"--tensor-parallel-size", concat(tensor_size)});
  }
  return refusal([&] {
    const RunConfig config = resolve_flags(program, flags, tensor_size);
    predict(program, config, program.grid(tensor_size, 0));
  });
}

TEST_CASE("sizes that do not divide are refused alike by lessons and tools, and never planned") {
  std::mt19937 random(1);
  const auto below = [&](size_t count) { return size_t{random() % count}; };
  size_t num_refused = 0;
  testing::for_random_cases(40, [&](size_t) {
    const size_t heads = 1 + below(8), tensor = 2 + below(6);
    const ModelConfig model = {.num_layers = 2,
                               .num_heads = heads,
                               .hidden = 8 * heads,
                               .vocab_size = 256 + below(20),
                               .sequence_length = 8,
                               .ffn = (below(2) == 0 ? 1 : tensor) * (1 + below(60))};
    CAPTURE(heads, tensor, model.ffn, model.vocab_size);
    const std::string words = refusal([&] { rank_layout(model, {.tensor_size = tensor}); });
    CHECK(words.empty() == can_split(model, tensor));
    CHECK(refusal_of<TensorParallelTrainer>(model, tensor) == words);
    CHECK(refusal_of<ThreeDTrainer>(model, tensor) == words);
    CHECK(refusal_of<SequenceParallelTrainer>(model, tensor) == words);
    const ModelPartition part = {.tensor_rank = tensor - 1, .tensor_size = tensor};
    if (words.empty()) return;
    ++num_refused;
    // Nothing is named that so many ranks can split.
    CHECK((words.find(" head") != words.npos) == (heads % tensor != 0));
    CHECK((words.find("inner layer") != words.npos) == (model.ffn % tensor != 0));
    CHECK(words.find("vocabulary") == words.npos);
    CHECK_THROWS_AS(Layout(model, 1, part), Error);
    PlanRequest request;
    request.num_ranks = request.cluster.devices_per_node = tensor;
    for (const Candidate& candidate : all_candidates(request, model)) {
      CHECK(can_split(model, candidate.tensor));
    }
  });
  CHECK(num_refused > 5);
}

}  // namespace
}  // namespace ladder
