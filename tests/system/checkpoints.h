// Runs of lessons that write checkpoints into the folder c, and the names of what they write.
#pragma once

#include <filesystem>
#include <string>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/mpirun.h"
#include "tools/programs/scratch.h"

namespace ladder {

namespace fs = std::filesystem;

inline const Flags kShort = {"--model",
                             "nano",
                             "--layers",
                             "4",
                             "--heads",
                             "4",
                             "--evaluate-every",
                             "2",
                             "--sample",
                             "0",
                             "--threads",
                             "1",
                             "--evaluate-batches",
                             "1",
                             "--global-batch-size",
                             "12"};

struct LessonRun {
  std::string lesson;
  size_t num_ranks;
  Flags flags = {};

  ProcessResult run(const Flags& more, const ProcessOptions& options) const {
    const Flags argv = Flags{lesson_path(lesson)} + kShort + flags + more;
    return num_ranks == 1 ? run_process(argv, options) : run_ranks(num_ranks, argv, options);
  }
};

inline const LessonRun kSingle = {"01_single_gpu", 1};
inline const LessonRun kThreeD = {
    "09_3d_parallel", 8, {"--tensor-parallel-size", "2", "--pipeline-parallel-size", "2"}};

inline std::string bytes_of(const fs::path& path) {
  REQUIRE(fs::exists(path));
  return read_text(path);
}

inline std::string padded(int step, size_t digits) {
  const std::string number = std::to_string(step);
  return std::string(digits - number.size(), '0') + number;
}
inline std::string dump(int step) { return concat("step_", padded(step, 6), ".safetensors"); }
inline std::string checkpoint(int step) { return concat("c/step_", padded(step, 8)); }

}  // namespace ladder
