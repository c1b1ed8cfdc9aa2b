#include "common/train/run/run.h"

#include "common/io/standard_streams.h"
#include "common/train/flags/alike.h"
#include "common/train/flags/options.h"
#include "common/train/program/prediction.h"
#include "common/train/run/training_run.h"
#include "common/train/run/virtual_run.h"
#include "common/train/trainer/guarded.h"

namespace ladder {

int run(const Program& program, int argc, const char* const* argv) {
  return run_guarded(program.lesson, [&](Job& job) {
    require_same_program(job, program.lesson.name, argc, argv);
    Options options(program.lesson, program.add_flags);
    const std::string asked = options.parse(argc, argv);
    if (!asked.empty()) {
      if (job.rank() == 0) print(asked);
      return;
    }
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
    run.train();
  });
}

}  // namespace ladder
