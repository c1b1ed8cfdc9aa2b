#include "tests/system/mpirun.h"

#include <string>
#include <utility>

namespace ladder {

Flags mpirun_command() { return {program_path("tools/mpirun")}; }

ProcessResult run_mpirun(const Flags& flags, ProcessOptions options) {
  options.environment.insert(options.environment.end(),
                             {{"OMP_NUM_THREADS", "1"},
                              // Sockets of mpirun lie there, and their names are short of room.
                              {"TMPDIR", "/tmp"}});
  return run_process(mpirun_command() + flags, options);
}

ProcessResult run_ranks(size_t num_ranks, const Flags& argv, ProcessOptions options) {
  return run_mpirun(Flags{"-n", std::to_string(num_ranks)} + argv, std::move(options));
}

std::string ddp_path() { return program_path("lessons/02_ddp/02_ddp"); }

}  // namespace ladder
