// Which lessons take --train: all that can leave backward out where nothing is trained; and which
// take --objective: all whose ranks have whole sequences. The others refuse it by its name.
#include <CLI/CLI.hpp>
#include <map>

#include "common/train/flags/command_line.h"
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

// Rank 0 has fewer gradients and moments than if everything was trained.
void check_trains_less(const Program& program, RunConfig config, const ProcessGrid& grid) {
  const Prediction some = predict(program.planned(config, grid), config, grid);
  config.model.frozen.clear();
  const Prediction all = predict(program.planned(config, grid), config, grid);
  const auto state = [](const Prediction& prediction) {
    return prediction.device[Category::gradients] + prediction.host[Category::gradients] +
           prediction.device[Category::optimizer] + prediction.host[Category::optimizer];
  };
  CHECK(state(some) < state(all));
  CHECK(some.device[Category::parameters] <= all.device[Category::parameters] + 4096);
}

// What the lesson's program says to the flags on so many ranks before it trains; "" if it trains.
template <class T>
std::string refusal(const Flags& flags, size_t num_ranks) {
  typename T::Flags of_lesson;
  Options options(T::kLesson.info, [&](CLI::App& app) { of_lesson.add_to(app); });
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
  F of_lesson;
  of_lesson.add_to(app);
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
  const std::string asked =
      "--train " + choice + (choice == "lora" ? ", rank 8, alpha 16 on attn.c_attn" : "");
  const std::string stages =
      asked + ": not where a pipeline cuts the model, whose parts all run backward; take one stage";
  const std::string experts =
      asked + ": not in a model with experts, whose backward computes all gradients";
  for (const size_t num_ranks : {1, 2}) {
    const auto all = refusals({"--train", choice}, num_ranks);
    CAPTURE(choice, num_ranks);
    CHECK(all.size() == 21);  // all lessons
    size_t taken = 0, refused = 0;
    for (const auto& [lesson, why] : all) {
      CAPTURE(lesson);
      const bool is_pipeline =
          lesson == "08_pipeline_parallel" || lesson == "16_pipeline_schedules";
      ++(why.empty() ? taken : refused);
      if (lesson == "00_collectives" || lesson == "19_planning") {
        CHECK_THAT(why, ContainsSubstring("--train"));
      } else if (lesson == "15_expert_parallel") {
        CHECK(why == experts);
      } else {
        CHECK(why == (is_pipeline && num_ranks > 1 ? stages : ""));
      }
    }
    CHECK(taken == (num_ranks == 1 ? 18 : 16));
    CHECK(taken + refused == all.size());
  }
  for (const std::string schedule : {"1f1b", "interleaved"}) {
    const Flags flags = {"--train", choice,       "--pipeline-parallel-size",
                         "2",       "--schedule", schedule};
    CHECK(refusal<ThreeDTrainer>(flags, 4) == stages);
  }
  CHECK(refusal<ElasticTrainer>({"--train", choice, "--pipeline-parallel-size", "2"}, 4) == stages);
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
    CHECK(all.size() == 21);  // all lessons
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

}  // namespace
}  // namespace ladder
