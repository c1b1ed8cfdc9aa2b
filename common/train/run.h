// A whole run of a lesson's trainer: flags, header, training loop, metrics, dumps, end table.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "common/comm/job.h"
#include "common/train/alike.h"
#include "common/train/named_files.h"
#include "common/train/prediction.h"
#include "common/train/trainer.h"

namespace ladder {

// A trainer's functions, so that the loop need not be a template.
struct TrainerCalls {
  std::function<StepResult()> step;
  std::function<double(size_t)> evaluate;
  std::function<std::vector<Slice>(std::string_view kind)> slices;
  std::function<void()> check_replicas;  // may be empty
  std::function<std::string()> report;   // may be empty
};

// The surroundings of a trainer: corpus, memory, stream, ranks. Checks every file that the run
// needs. Rank 0 alone prints and writes.
class Run {
 public:
  // `description`: for the header. `has_axes`: the trainer wants groups along the axes of the grid.
  // `more_outputs`: files that the trainer will write on rank 0.
  // UserError: data, weights or output paths that cannot be used.
  Run(const LessonInfo& lesson, RunConfig config, const ProcessGrid& grid, Job& job,
      const Prediction& prediction, const std::string& description, bool has_axes,
      const std::vector<NamedFile>& more_outputs);
  ~Run();

  // Called once, before training. Throws OutOfMemory.
  TrainerContext context();
  // The training loop, to the end table and the sample.
  void train(const TrainerCalls& calls);
  // An out-of-memory error as a table of categories and what to try.
  std::string report(const OutOfMemory& error) const;

 private:
  void train_and_report(const TrainerCalls& calls);

  struct State;
  std::unique_ptr<State> state_;
};

// Joins the other ranks where the lesson is `distributed`, calls `body`, and turns what it throws
// into one message on standard error and an exit status: 0 done, 2 the user's mistake, 1 anything
// else. A rank that fails ends all ranks.
int run_guarded(const LessonInfo& lesson, bool distributed, const std::function<void(Job&)>& body);

template <class T>
constexpr bool is_distributed() {
  if constexpr (requires { T::kDistributed; }) return T::kDistributed;
  return false;
}

// Has this trainer more than one way to arrange its ranks?
template <class T>
concept Arranges = requires(const typename T::Flags& flags) {
  T::arrange(flags, 1, 0);
};

// main of every lesson. Returns the exit status.
template <Trainer T>
int run(int argc, char** argv) {
  return run_guarded(T::kLesson, is_distributed<T>(), [&](Job& job) {
    job.require_same(settings_of_program(T::kLesson.name, argc, argv));
    typename T::Flags flags;
    ProcessGrid grid = {.data_size = job.size(), .rank = job.rank()};
    const Ranks ranks = {is_distributed<T>(),
                         job.rank(),
                         job.node_size(),
                         [&] {
                           if constexpr (Arranges<T>) {
                             grid = T::arrange(flags, job.size(), job.rank());
                           }
                           return grid.data_size;
                         },
                         job.size(),
                         [&] { return grid.pipeline_size; }};
    const std::optional<RunConfig> config = parse_options(
        T::kLesson, argc, argv, ranks, [&](CLI::App& app) { flags.add_to(app); },
        [&](CLI::App& app) { job.require_same(settings_of_flags(app)); });
    if (!config) return;  // --help
    job.connect({.device = config->device,
                 .transport = config->communication,
                 .shared_memory = !config->no_shared_memory,
                 .mpi = {.check_collectives = config->check_collectives,
                         .timeout_seconds = config->collective_timeout}});
    const Prediction prediction = predict<T>(*config, grid, flags);
    std::string description;
    if constexpr (requires { T::describe(*config, grid, flags); }) {
      if (job.rank() == 0) description = T::describe(*config, grid, flags);
    }
    std::vector<NamedFile> outputs;
    if constexpr (requires { flags.outputs(); }) outputs = flags.outputs();
    Run surroundings(T::kLesson, *config, grid, job, prediction, description, Arranges<T>, outputs);
    try {
      T trainer(surroundings.context(), flags);
      trainer.initialize();
      TrainerCalls calls = {
          [&] { return trainer.step(); }, [&](size_t batches) { return trainer.evaluate(batches); },
          [&](std::string_view kind) { return trainer.slices(kind); }, nullptr, nullptr};
      if constexpr (requires { trainer.check_replicas(); }) {
        calls.check_replicas = [&] { trainer.check_replicas(); };
      }
      if constexpr (requires { trainer.report(); }) {
        calls.report = [&] { return trainer.report(); };
      }
      surroundings.train(calls);
    } catch (const OutOfMemory& error) {
      throw Error(concat(error.what(), "\n", surroundings.report(error)));
    }
  });
}

}  // namespace ladder
