// A trainer as plain function objects, so that the code that runs it need not be a template.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/checkpoint/writer.h"
#include "common/train/trainer/model_state.h"
#include "common/train/trainer/trainer.h"

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
template <Trainer T, class... Plan>
TrainerCalls make_trainer(const TrainerContext& context, const typename T::Flags& flags,
                          const Plan&... plan) {
  const auto trainer = std::make_shared<T>(context, flags, plan...);
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

}  // namespace ladder
