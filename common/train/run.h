// A whole run of a lesson's trainer: flags, header, training loop, metrics, dumps, end table.
#pragma once

#include <functional>
#include <memory>

#include "common/train/trainer.h"

namespace ladder {

// A trainer's functions, so that the loop need not be a template.
struct TrainerCalls {
  std::function<StepResult()> step;
  std::function<double(size_t)> evaluate;
  std::function<void(TensorKind, const TensorSink&)> visit;
};

// The surroundings of a trainer: corpus, memory, stream. Checks every file that the run needs.
class Run {
 public:
  // UserError: data, weights or output paths that cannot be used.
  Run(const LessonInfo& lesson, RunConfig config, const Prediction& prediction);
  ~Run();

  TrainerContext context();
  // The training loop, to the end table and the sample.
  void train(const TrainerCalls& calls);
  // To standard error: an out-of-memory error as a table of categories and what to try.
  void report(const OutOfMemory& error) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// UserError if the program was started as one of several ranks.
void require_one_rank(const LessonInfo& lesson);

// Calls `body` and turns what it throws into one message on standard error and an exit status:
// 0 done, 2 the user's mistake, 1 anything else.
int run_guarded(const std::function<void()>& body);

// main of every lesson. Returns the exit status.
template <Trainer T>
int run(int argc, char** argv) {
  return run_guarded([&] {
    const ProcessGrid grid;
    require_one_rank(T::kLesson);
    typename T::Flags flags;
    const std::optional<RunConfig> config = parse_options(
        T::kLesson, argc, argv, grid.data_size, [&](CLI::App& app) { flags.add_to(app); });
    if (!config) return;  // --help
    Run surroundings(T::kLesson, *config, T::predict(*config, grid, flags));
    try {
      T trainer(surroundings.context(), flags);
      surroundings.train(
          {[&] { return trainer.step(); },
           [&](size_t batches) { return trainer.evaluate(batches); },
           [&](TensorKind kind, const TensorSink& sink) { trainer.visit(kind, sink); }});
    } catch (const OutOfMemory& error) {
      surroundings.report(error);
      throw;
    }
  });
}

}  // namespace ladder
