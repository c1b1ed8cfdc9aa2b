// A lesson's program as plain function objects, so that the code that runs it need not be a
// template.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tuple>

#include "common/grid/process_grid.h"
#include "common/train/program/sample.h"
#include "common/train/program/trainer_calls.h"

namespace ladder {

// What trainer.h requires of a trainer class, as functions that share the lesson's flags.
struct Program {
  LessonInfo lesson;
  bool is_distributed = false;
  std::function<void(CLI::App&)> add_flags;
  std::function<TrainerCalls(const TrainerContext&)> make;
  // The following may be empty. They use the flags' values at the time of the call.
  std::function<ProcessGrid(size_t num_ranks, size_t rank)> arrange;
  std::function<std::string(const RunConfig&, const ProcessGrid&)> describe;
  std::function<void(RunConfig&)> adjust;
  std::function<MixtureMaker(const RunConfig&)> mixture;
  std::function<Program(const RunConfig&, const ProcessGrid&)> plan;

  // Returns the same program with its plan made, for all ranks of such a run. Before, make()
  // and describe() each plan for themselves. Throws UserError if there is no plan.
  Program planned(const RunConfig& config, const ProcessGrid& grid) const {
    return plan ? plan(config, grid) : *this;
  }
  // Returns the grid of so many ranks as one of them sees it. Throws what arrange() throws.
  ProcessGrid grid(size_t num_ranks, size_t rank) const {
    return arrange ? arrange(num_ranks, rank) : ProcessGrid{.data_size = num_ranks, .rank = rank};
  }
};

// Returns what the trainer plans of a run, in a tuple, which is empty if it plans nothing.
template <Trainer T>
auto plan_of(const RunConfig& config, const ProcessGrid& grid, const typename T::Flags& flags) {
  if constexpr (PlanningTrainer<T>) {
    return std::tuple(T::plan(config, grid, flags));
  } else {
    return std::tuple();
  }
}

// Sets the functions to which the plan is given. `plan(config, grid)` returns plan_of() them.
template <Trainer T, class GetPlan>
void set_planned(Program& program, const std::shared_ptr<typename T::Flags>& flags, GetPlan plan) {
  program.make = [=](const TrainerContext& context) {
    return std::apply([&](const auto&... own) { return make_trainer<T>(context, *flags, own...); },
                      plan(context.config, grid_of(context)));
  };
  if constexpr (requires { &T::describe; }) {
    program.describe = [=](const RunConfig& config, const ProcessGrid& grid) {
      return std::apply(
          [&](const auto&... own) { return T::describe(config, grid, *flags, own...); },
          plan(config, grid));
    };
  }
}

// Returns the program of a trainer class. Its flags begin with the values in `initial`.
template <Trainer T>
Program make_program(const typename T::Flags& initial = {}) {
  const auto flags = std::make_shared<typename T::Flags>(initial);
  Program program;
  program.lesson = T::kLesson;
  if constexpr (requires { T::kDistributed; }) program.is_distributed = T::kDistributed;
  program.add_flags = [flags](CLI::App& app) { flags->add_to(app); };
  if constexpr (requires { T::arrange(*flags, 1, 0); }) {
    program.arrange = [flags](size_t num_ranks, size_t rank) {
      return T::arrange(*flags, num_ranks, rank);
    };
  }
  if constexpr (requires(RunConfig & config) { T::adjust(config, *flags); }) {
    program.adjust = [flags](RunConfig& config) { T::adjust(config, *flags); };
  }
  if constexpr (requires(const RunConfig& config) { T::make_mixture(config, *flags); }) {
    program.mixture = [flags](const RunConfig& config) { return T::make_mixture(config, *flags); };
  }
  set_planned<T>(program, flags, [flags](const RunConfig& config, const ProcessGrid& grid) {
    return plan_of<T>(config, grid, *flags);
  });
  if constexpr (PlanningTrainer<T>) {
    program.plan = [flags, program](const RunConfig& config, const ProcessGrid& grid) {
      Program planned = program;
      const auto plan = plan_of<T>(config, grid, *flags);
      set_planned<T>(planned, flags, [plan](const auto&...) { return plan; });
      return planned;
    };
  }
  return program;
}

}  // namespace ladder
