// A lesson's program as plain function objects, so that the code that runs it need not be a
// template.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/checkpoint/writer.h"
#include "common/grid/traffic.h"
#include "common/train/model_state.h"
#include "common/train/sample.h"
#include "common/train/trainer.h"

namespace ladder {

// The functions of one trainer (trainer.h). The trainer lives as long as they do.
struct TrainerCalls {
  std::function<void()> initialize;
  std::function<StepResult()> step;
  std::function<double(size_t)> evaluate;
  std::function<std::vector<Slice>(std::string_view kind)> slices;
  std::function<std::vector<NamedSlice>()> stored;  // all slices that a checkpoint has
  std::function<void(CheckpointReader&)> restore;   // all but scalars
  std::function<std::vector<Scalar>()> scalars;
  std::function<void()> check_replicas;  // may be empty
  std::function<std::string()> report;   // may be empty
};

// What trainer.h requires of a trainer class, as functions that share the lesson's flags.
struct Program {
  LessonInfo lesson;
  bool is_distributed = false;
  std::function<void(CLI::App&)> add_flags;
  std::function<TrainerCalls(const TrainerContext&)> make;
  // The following may be empty. They use the flags' values at the time of the call.
  std::function<ProcessGrid(size_t num_ranks, size_t rank)> arrange;
  std::function<std::string(const RunConfig&, const ProcessGrid&)> describe;
  std::function<TrafficEntries(const RunConfig&, const ProcessGrid&)> traffic;
  std::function<void(RunConfig&)> adjust;
  std::function<MixtureMaker(const RunConfig&)> mixture;

  // Returns the grid of so many ranks as one of them sees it. Throws what arrange() throws.
  ProcessGrid grid(size_t num_ranks, size_t rank) const {
    return arrange ? arrange(num_ranks, rank) : ProcessGrid{.data_size = num_ranks, .rank = rank};
  }
};

// Returns the slices of a kind that the trainer's rank owns.
template <Trainer T>
std::vector<Slice> slices_of(T& trainer, std::string_view kind) {
  if constexpr (requires { trainer.slices(kind); }) {
    return trainer.slices(kind);
  } else {
    return trainer.state().slices(kind);
  }
}

// Returns all slices that a checkpoint has.
template <Trainer T>
std::vector<NamedSlice> stored_of(T& trainer) {
  std::vector<NamedSlice> slices =
      stored_slices([&](std::string_view kind) { return slices_of(trainer, kind); });
  if constexpr (requires { trainer.stored(); }) {
    for (NamedSlice& slice : trainer.stored()) slices.push_back(std::move(slice));
  }
  return slices;
}

// Returns all numbers that decide the steps to come.
template <Trainer T>
std::vector<Scalar> scalars_of(T& trainer) {
  std::vector<Scalar> scalars = trainer.state().scalars();
  if constexpr (requires { trainer.scalars(); }) {
    for (Scalar& scalar : trainer.scalars()) scalars.push_back(std::move(scalar));
  }
  return scalars;
}

// Constructs a trainer and returns its functions.
template <Trainer T>
TrainerCalls make_trainer(const TrainerContext& context, const typename T::Flags& flags) {
  const auto trainer = std::make_shared<T>(context, flags);
  TrainerCalls calls;
  calls.initialize = [trainer] { trainer->state().initialize(); };
  calls.step = [trainer] { return trainer->step(); };
  calls.evaluate = [trainer](size_t num_batches) { return trainer->evaluate(num_batches); };
  calls.slices = [trainer](std::string_view kind) { return slices_of(*trainer, kind); };
  calls.stored = [trainer] { return stored_of(*trainer); };
  calls.restore = [trainer](CheckpointReader& from) {
    trainer->state().restore(from);
    if constexpr (requires { trainer->restore(from); }) trainer->restore(from);
  };
  calls.scalars = [trainer] { return scalars_of(*trainer); };
  if constexpr (requires { trainer->check_replicas(); }) {
    calls.check_replicas = [trainer] { trainer->check_replicas(); };
  }
  if constexpr (requires { trainer->report(); }) {
    calls.report = [trainer] { return trainer->report(); };
  }
  return calls;
}

// Returns the program of a trainer class. Its flags begin with the values in `initial`.
template <Trainer T>
Program make_program(const typename T::Flags& initial = {}) {
  const auto flags = std::make_shared<typename T::Flags>(initial);
  Program program;
  program.lesson = T::kLesson;
  if constexpr (requires { T::kDistributed; }) program.is_distributed = T::kDistributed;
  program.add_flags = [flags](CLI::App& app) { flags->add_to(app); };
  program.make = [flags](const TrainerContext& context) {
    return make_trainer<T>(context, *flags);
  };
  if constexpr (requires { T::arrange(*flags, 1, 0); }) {
    program.arrange = [flags](size_t num_ranks, size_t rank) {
      return T::arrange(*flags, num_ranks, rank);
    };
  }
  if constexpr (requires(const RunConfig& config) { T::describe(config, {}, *flags); }) {
    program.describe = [flags](const RunConfig& config, const ProcessGrid& grid) {
      return T::describe(config, grid, *flags);
    };
  }
  if constexpr (requires(const RunConfig& config) { T::traffic(config, {}, *flags); }) {
    program.traffic = [flags](const RunConfig& config, const ProcessGrid& grid) {
      return T::traffic(config, grid, *flags);
    };
  }
  if constexpr (requires(RunConfig & config) { T::adjust(config, *flags); }) {
    program.adjust = [flags](RunConfig& config) { T::adjust(config, *flags); };
  }
  if constexpr (requires(const RunConfig& config) { T::make_mixture(config, *flags); }) {
    program.mixture = [flags](const RunConfig& config) { return T::make_mixture(config, *flags); };
  }
  return program;
}

}  // namespace ladder
