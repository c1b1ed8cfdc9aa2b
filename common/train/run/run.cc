#include "common/train/run/run.h"

#include <exception>
#include <optional>

#include "common/io/standard_streams.h"
#include "common/train/flags/alike.h"
#include "common/train/flags/options.h"
#include "common/train/program/prediction.h"
#include "common/train/run/training_run.h"
#include "common/train/run/virtual_run.h"
#include "common/train/trainer/guarded.h"

namespace ladder {

int run(const Program& program, int argc, const char* const* argv) {
  std::optional<Options> parsed;
  std::string asked;
  std::exception_ptr mistake;
  int status = 0;
  const auto body = [&](Job& job) {
    require_same_program(job, program.lesson.name, argc, argv);
    if (mistake) std::rethrow_exception(mistake);
    if (!asked.empty()) {
      if (job.rank() == 0) print(asked);
      return;
    }
    Options& options = *parsed;
    require_same_flags(job, options.app());
    if (options.is_virtual()) return run_virtual(program, options, job);
    const auto grid_now = [&] { return program.grid(job.size(), job.rank()); };
    RunConfig config = options.resolve(grid_now(), job.node_size());
    config.machine_of = job.machine_of();
    if (program.adjust) program.adjust(config);
    const ProcessGrid grid = grid_now();  // of the model that is known now
    job.connect(options.connection().options(config.device));
    const Program planned = program.planned(config, grid);
    TrainingRun run(planned, config, grid, job, predict(planned, config, grid));
    if (job.rank() == 0) options.save(config);
    status = run.train();
  };
  // The time limit is needed before ranks can join, so flags are read before. What is wrong with
  // them is said when it is known that all ranks run the same program.
  const auto wait_limit = [&] {
    try {
      parsed.emplace(program.lesson, program.add_flags);
      asked = parsed->parse(argc, argv);
      return parsed->connection().collective_timeout;
    } catch (...) {
      mistake = std::current_exception();
      return 0.0;
    }
  };
  const int failed = run_guarded(program.lesson, body, wait_limit);
  return failed != 0 ? failed : status;
}

}  // namespace ladder
