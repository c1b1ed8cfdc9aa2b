// A lesson's program as plain function objects, so that the code that runs it need not be a
// template.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/grid/process_grid.h"
#include "common/train/trainer/trainer.h"

namespace ladder {

// A lesson (trainer.h) and its flags. Functions use the flags' values at the time of the call.
struct Program {
  LessonInfo lesson;
  std::function<void(FlagTable&)> add_flags;
  std::function<std::unique_ptr<Trainer>(const TrainerContext&)> construct;
  // Those of Lesson, given the flags; empty where it has none.
  std::function<ProcessGrid(size_t num_ranks, size_t rank)> arrange = {};
  std::function<void(RunConfig&)> adjust = {};
  std::function<SharedPlan(const RunConfig&, const ProcessGrid&)> plan = {};
  std::function<std::string(const RunConfig&, const ProcessGrid&, const SharedPlan&)> describe = {};
  std::function<MixtureMaker(const RunConfig&)> make_mixture = {};

  // Returns the same program with its plan made, for all ranks of such a run. Before, make() and
  // header() each plan for themselves. Throws UserError if there is no plan.
  Program planned(const RunConfig& config, const ProcessGrid& grid) const {
    Program program = *this;
    if (plan) program.plan = [made = plan(config, grid)](const auto&...) { return made; };
    return program;
  }
  TrainerContext with_plan(TrainerContext context) const {
    if (plan) context.plan = plan(context.config, grid_of(context));
    return context;
  }
  std::unique_ptr<Trainer> make(const TrainerContext& context) const {
    return construct(with_plan(context));
  }
  // Returns the lesson's own lines for the header.
  std::string header(const RunConfig& config, const ProcessGrid& grid) const {
    return describe ? describe(config, grid, plan ? plan(config, grid) : nullptr) : std::string();
  }
  // Returns the grid of so many ranks as one of them sees it. Throws what arrange() throws.
  ProcessGrid grid(size_t num_ranks, size_t rank) const {
    return arrange ? arrange(num_ranks, rank) : ProcessGrid{.data_size = num_ranks, .rank = rank};
  }
};

// Returns the program of a trainer class. Its flags begin with the values in `initial`.
template <class T>
Program make_program(const typename T::Flags& initial = {}) {
  using Flags = typename T::Flags;
  const auto flags = std::make_shared<Flags>(initial);
  const auto given = [flags]<class R, class F, class... A>(R (*function)(F, A...)) {
    std::function<R(A...)> bound;
    if (function != nullptr) {
      bound = [=](A... arguments) { return function(*flags, std::forward<A>(arguments)...); };
    }
    return bound;
  };
  const Lesson<Flags>& lesson = T::kLesson;
  return {
      .lesson = lesson.info,
      .add_flags = [flags](FlagTable& table) { flags->add_to(table); },
      .construct =
          [flags](const TrainerContext& context) { return std::make_unique<T>(context, *flags); },
      .arrange = given(lesson.arrange),
      .adjust = given(lesson.adjust),
      .plan = given(lesson.plan),
      .describe = given(lesson.describe),
      .make_mixture = given(lesson.make_mixture)};
}

// What makes the programs of trainer classes, by the lessons' names.
using Programs = std::map<std::string, Program (*)()>;
template <class... T>
Programs programs_of() {
  return {{T::kLesson.info.name, [] { return make_program<T>(); }}...};
}

}  // namespace ladder
