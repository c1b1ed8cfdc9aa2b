// Which lessons take --train: all that can leave backward out where nothing is trained; and which
// take --objective: all whose ranks have whole sequences; and which take --optimizer muon. The
// others refuse it by its name.
#include <CLI/CLI.hpp>
#include <map>
#include <set>

#include "common/train/flags/command_line.h"
#include "common/train/flags/flag_table.h"
#include "common/train/flags/options.h"
#include "common/train/program/prediction.h"
#include "lessons/00_collectives/program.h"
#include "lessons/19_planning/program.h"
#include "tests/catch.h"
#include "tests/lessons/all_trainers.h"

namespace ladder {
namespace {

using Flags = std::vector<std::string>;

Flags operator+(Flags some, const Flags& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

std::vector<const char*> pointers(const Flags& flags) {
  std::vector<const char*> argv = {"program"};
  for (const std::string& flag : flags) argv.push_back(flag.c_str());
  return argv;
}

// The bytes that all ranks keep from step to step.
struct StateBytes {
  size_t parameters = 0, others = 0;
};
StateBytes state_of(const Program& program, const RunConfig& config, ProcessGrid grid) {
  StateBytes sum;
  const Program planned = program.planned(config, grid);
  for (grid.rank = 0; grid.rank < grid.world_size(); ++grid.rank) {
    const Prediction own = predict(planned, config, grid);
    sum.parameters += own.device[Category::parameters];
    for (const Category category : {Category::gradients, Category::optimizer}) {
      sum.others += own.device[category] + own.host[category];
    }
  }
  return sum;
}

// Ranks have fewer gradients and moments than if everything was trained. (Which stage has which
// weights may differ.)
void check_trains_less(const Program& program, RunConfig config, const ProcessGrid& grid) {
  const StateBytes some = state_of(program, config, grid);
  config.model.frozen.clear();
  const StateBytes all = state_of(program, config, grid);
  CHECK(some.others < all.others);
  CHECK(some.parameters <= all.parameters + 4096 * grid.world_size());
}

// What the lesson's program says to the flags on so many ranks before it trains; "" if it trains.
template <class T>
std::string refusal(const Flags& flags, size_t num_ranks) {
  typename T::Flags of_lesson;
  Options options(T::kLesson.info, [&](FlagTable& table) { of_lesson.add_to(table); });
  const std::vector<const char*> argv = pointers(flags);
  try {
    options.parse(static_cast<int>(argv.size()), argv.data());
    const Program program = make_program<T>(of_lesson);
    const ProcessGrid grid = program.grid(T::kLesson.info.is_distributed ? num_ranks : 1, 0);
    RunConfig config = options.resolve(grid);
    if (program.adjust) program.adjust(config);
    if (flags.front() == "--train") {
      check_trains_less(program, config, grid);
    } else {
      predict(program.planned(config, grid), config, grid);
    }
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

template <class F>
std::string refusal_of_other(const LessonInfo& lesson, const Flags& flags) {
  CLI::App app("", lesson.name);
  FlagTable table(app);
  F of_lesson;
  of_lesson.add_to(table);
  const std::vector<const char*> argv = pointers(flags);
  try {
    parse_command_line(app, static_cast<int>(argv.size()), argv.data());
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// By the lesson.
std::map<std::string, std::string> refusals(const Flags& flags, size_t num_ranks) {
  std::map<std::string, std::string> all;
  testing::of_all_trainers([&]<class T>() {
    all[T::kLesson.info.name] = refusal<T>(flags, num_ranks);
    return 0;
  });
  all[kCollectivesLesson.name] = refusal_of_other<CollectiveFlags>(kCollectivesLesson, flags);
  all[kPlanningLesson.name] = refusal_of_other<PlanFlags>(kPlanningLesson, flags);
  return all;
}

TEST_CASE("every lesson takes --train or refuses it by its name") {
  const std::string choice = GENERATE("last-1", "bias", "lora");
  for (const size_t num_ranks : {1, 2}) {
    const auto all = refusals({"--train", choice}, num_ranks);
    CAPTURE(choice, num_ranks);
    CHECK(all.size() == 22);  // all lessons
    size_t taken = 0, refused = 0;
    for (const auto& [lesson, why] : all) {
      CAPTURE(lesson);
      ++(why.empty() ? taken : refused);
      if (lesson == "00_collectives" || lesson == "19_planning") {
        CHECK_THAT(why, ContainsSubstring("--train"));
      } else if (lesson == "20_muon" && choice != "last-1") {
        CHECK_THAT(why,
                   ContainsSubstring("no matrix of a block is trained; take --optimizer adamw"));
      } else {
        CHECK(why == "");
      }
    }
    CHECK(taken == (choice == "last-1" ? 20 : 19));
    CHECK(taken + refused == all.size());
  }
  for (const std::string schedule : {"1f1b", "interleaved"}) {
    const Flags flags = {"--train", choice,       "--pipeline-parallel-size",
                         "2",       "--schedule", schedule};
    CHECK(refusal<ThreeDTrainer>(flags, 4) == "");
  }
  CHECK(refusal<ElasticTrainer>({"--train", choice, "--pipeline-parallel-size", "2"}, 4) == "");
  CHECK(refusal<ThreeDTrainer>({"--train", choice, "--tensor-parallel-size", "2"}, 4) == "");
}

TEST_CASE("every lesson takes --objective masked where ranks have whole sequences") {
  const Flags masked = {"--objective", "masked"};
  const std::string context =
      "--objective masked: ranks that share sequences pass on keys for a causal mask; take "
      "--context-parallel-size 1";
  for (const size_t num_ranks : {1, 2}) {
    const auto all = refusals(masked, num_ranks);
    CAPTURE(num_ranks);
    CHECK(all.size() == 22);  // all lessons
    for (const auto& [lesson, why] : all) {
      CAPTURE(lesson);
      if (lesson == "00_collectives" || lesson == "19_planning") {
        CHECK_THAT(why, ContainsSubstring("--objective"));
      } else {
        CHECK(why == (lesson == "14_context_parallel" && num_ranks > 1 ? context : ""));
      }
    }
  }
  CHECK(refusal<ThreeDTrainer>(masked + Flags{"--context-parallel-size", "2"}, 2) == context);
}

TEST_CASE("homes are for Muon") {
  CHECK(refusal<MuonTrainer>({"--optimizer", "adamw"}, 2) == "");
  CHECK(refusal<MuonTrainer>({"--homes", "everywhere"}, 2) == "");
  CHECK(refusal<MuonTrainer>({"--optimizer", "adamw", "--homes", "in-turn"}, 2) ==
        "--homes in-turn needs --optimizer muon");
}

TEST_CASE("every lesson takes --optimizer muon, or refuses it and names those that do") {
  const std::set<std::string> with_muon = {
      "01_single_gpu",      "02_ddp",         "03_zero1",           "04_zero2", "05_zero3",
      "07_tensor_parallel", "09_3d_parallel", "15_expert_parallel", "20_muon",  "21_hybrid_shard"};
  for (const size_t num_ranks : {1, 2}) {
    CAPTURE(num_ranks);
    for (const auto& [lesson, why] : refusals({"--optimizer", "muon"}, num_ranks)) {
      CAPTURE(lesson);
      if (with_muon.contains(lesson)) {
        CHECK(why == "");
      } else if (lesson == "00_collectives" || lesson == "19_planning") {
        CHECK_THAT(why, ContainsSubstring("--optimizer"));
      } else {
        CHECK(why == concat("--optimizer muon: it needs whole matrices, which ", lesson,
                            " gives to no rule; lessons 01 to 05, 07, 09, 15, 20 and 21 do"));
      }
    }
  }
}

}  // namespace
}  // namespace ladder
