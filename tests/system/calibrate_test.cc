// tools/calibrate as a user runs it, but for the build and mpirun.

#include "tests/catch.h"
#include "tests/system/single_gpu.h"
#include "tools/programs/process.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

ProcessResult run_calibrator(const Flags& flags, const ProcessOptions& options = {}) {
  return run_process(Flags{program_path("tools/measure/calibrator/calibrator")} + flags, options);
}

TEST_CASE("Wrong flags are one line and status 2, before anything is measured") {
  const auto [flags, mentions] =
      GENERATE(std::pair<Flags, std::string>{{"--out", "/none/machine.json"}, "/none/machine.json"},
               std::pair<Flags, std::string>{{"--lesson", "02"}, "--lesson"},
               std::pair<Flags, std::string>{{"--busy-ranks", "0"}, "--busy-ranks"},
               std::pair<Flags, std::string>{{"--busy-ranks", "2"}, "the 1 rank of this run"},
               std::pair<Flags, std::string>{{"--model", "none"}, "--model none"},
               std::pair<Flags, std::string>{{"--colour", "red"}, "--colour"});
  CAPTURE(flags);
  const Scratch scratch;
  const ProcessResult result = run_calibrator(flags, {.folder = scratch.path()});
  check_user_error(result, {mentions});
}

}  // namespace
}  // namespace ladder
