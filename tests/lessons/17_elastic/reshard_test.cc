// The state that some ranks have written is read by others, in another layout, with another
// trainer.
#include <map>
#include <set>

#include "common/checkpoint/reader.h"
#include "common/checkpoint/writer.h"
#include "lessons/17_elastic/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/sharded.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

using namespace testing;

// A folder that all ranks know. Rank 0 makes it, and removes it when all have come to the end.
class SharedFolder {
 public:
  SharedFolder() {
    if (world().rank() == 0) own_.emplace();
    constexpr size_t kLength = 64;  // of a path, in numbers of 8 bytes
    std::vector<uint64_t> text(kLength);
    if (own_) own_->path().string().copy(reinterpret_cast<char*>(text.data()), kLength * 8 - 1);
    text = world().all_gather(text);
    path_ = reinterpret_cast<const char*>(text.data());
  }
  ~SharedFolder() { world().all_gather({}); }
  const std::string& path() const { return path_; }

 private:
  std::optional<Scratch> own_;
  std::string path_;
};

using State = std::map<std::string, std::vector<double>>;

// Parameters and moments by their names, on the group's rank 0. Collective.
State state_of(Session<ElasticTrainer>& session) {
  State state;
  for (std::string_view kind : kStoredKinds) {
    session.visit(kind, [&](const ParameterSpec& parameter, ConstTensorView tensor) {
      const auto* const numbers = tensor.as<double>();
      state[concat(kind, ".", parameter.name)].assign(numbers, numbers + tensor.num_elements());
    });
  }
  return state;
}

struct Split {
  size_t ranks, tensor, pipeline;
  ElasticTrainer::Flags flags() const {
    return {.tensor_parallel_size = tensor, .pipeline_parallel_size = pipeline};
  }
};

RunConfig resuming_config(const std::vector<std::string>& frozen) {
  RunConfig config = split_config(DType::fp64, 1);
  config.model.frozen = frozen;
  config.checkpoint.resume = true;
  return config;
}

struct Written {
  State state;        // on rank 0, after one step
  StepResult second;  // what the next step computes, on the ranks that have written
};

// Trains a step on the first ranks of the world, writes what they own to the folder, and trains
// another step.
Written write(const Split& split, const std::string& folder,
              const std::vector<std::string>& frozen) {
  Groups groups(split.ranks);
  Session<ElasticTrainer> session(resuming_config(frozen), *groups.group, &groups.node_memory,
                                  split.flags());
  session.trainer->step();
  Written written = {.state = state_of(session), .second = {}};
  const auto slices =
      stored_slices([&](std::string_view kind) { return session.trainer->slices(kind); });
  if (world().rank() < split.ranks) {
    write_rank_files(folder, groups.group->rank(), slices,
                     [](const NamedSlice& part) { return part.slice.view; });
  }
  groups.all->barrier();
  if (world().rank() == 0) {
    CheckpointIndex index;
    index.lesson = ElasticTrainer::kLesson.info.name;
    index.model = session.config.model;
    index.layout = session.grid;
    index.dtype = DType::fp64;
    index.scalars = {{"step", int64_t{1}}, {"updates", int64_t{1}}};
    write_index(folder, index);
  }
  groups.all->barrier();
  written.second = session.trainer->step();
  return written;
}

// Which splits write and read: in pairs of which at least one is not data parallel alone, and 4
// ranks' shards for 3.
const std::vector<std::pair<Split, Split>> kPairs = {
    {{4, 1, 1}, {3, 1, 1}}, {{3, 1, 1}, {4, 1, 1}}, {{4, 2, 1}, {3, 1, 1}}, {{3, 1, 1}, {4, 2, 1}},
    {{8, 2, 2}, {6, 1, 2}}, {{2, 1, 2}, {4, 4, 1}}, {{4, 1, 4}, {1, 1, 1}}, {{1, 1, 1}, {8, 2, 4}},
};

void check_restored(const std::vector<std::pair<Split, Split>>& pairs,
                    const std::vector<std::string>& frozen) {
  for (const auto& [from, to] : pairs) {
    INFO(from.ranks << " ranks, tensor " << from.tensor << ", pipeline " << from.pipeline << " to "
                    << to.ranks << " ranks, tensor " << to.tensor << ", pipeline " << to.pipeline);
    const SharedFolder folder;
    const Written written = write(from, folder.path(), frozen);
    Groups groups(to.ranks);
    Session<ElasticTrainer> session(resuming_config(frozen), *groups.group, &groups.node_memory,
                                    to.flags());
    CheckpointReader reader(folder.path());
    ModelState& state = session.trainer->state();
    state.restore(reader);
    state.step = state.optimizer.num_updates = 1;
    const State restored = state_of(session);
    const StepResult second = session.trainer->step();
    if (world().rank() != 0) continue;
    REQUIRE(restored.size() == written.state.size());
    std::set<std::string> different;
    for (const auto& [name, numbers] : written.state) {
      if (restored.at(name) != numbers) different.insert(name);
    }
    CAPTURE(different);
    CHECK(different.empty());
    // The same terms in another order, as in bounds_for() of the equivalence tests.
    CHECK(second.loss == Approx(written.second.loss).epsilon(1e-11));
    CHECK(second.grad_norm == Approx(written.second.grad_norm).epsilon(1e-11));
    CHECK(second.learning_rate == written.second.learning_rate);
  }
}

TEST_CASE("parameters and moments are restored to the bit in every layout, and training goes on") {
  check_restored(kPairs, {});
}

TEST_CASE("the same where units and parameters are frozen, which have no moments") {
  check_restored({{{4, 1, 1}, {3, 1, 1}}, {{4, 2, 1}, {2, 1, 1}}}, {"wpe", "h.1", "h.2.ln_1.bias"});
}

}  // namespace
}  // namespace ladder
