// tools/checkpoint and the lessons agree on what each rank of a layout writes.
#include <filesystem>
#include <map>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/mpirun.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

// A lesson on some ranks, and how the tool writes their layout.
struct Run {
  std::string lesson;
  size_t num_ranks;
  std::string layout;
  Flags flags = {};
};

// Trains, and returns what is printed.
std::string train(const Run& run, const Flags& more, const ProcessOptions& options) {
  const Flags flags = {"--model",  "nano",      "--layers",
                       "4",        "--heads",   "4",
                       "--sample", "0",         "--evaluate-every",
                       "0",        "--threads", "1",
                       "--dtype",  "fp64",      "--global-batch-size",
                       "12"};
  const ProcessResult result =
      run_ranks(run.num_ranks, Flags{lesson_path(run.lesson)} + flags + run.flags + more, options);
  require_success(result);
  return result.out;
}

void run_tool(const Flags& arguments, const ProcessOptions& options) {
  require_success(
      run_process(Flags{program_path("tools/state/checkpoints/checkpoints")} + arguments, options));
}

// The files of a folder by name, with their bytes.
using Files = std::map<std::string, std::string>;
Files files_of(const fs::path& folder) {
  Files files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename()] = read_text(entry.path());
  }
  return files;
}

void check_same(const Files& a, const Files& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, bytes] : a) {
    INFO(name);
    CHECK((b.contains(name) && b.at(name) == bytes));  // bytes are not for printing
  }
}

TEST_CASE("the tool writes for a layout what the ranks of the lessons write, byte for byte") {
  const std::vector<Run> runs = {
      {"05_zero3", 3, "data=3"},
      {"07_tensor_parallel", 4, "tensor=4"},
      {"08_pipeline_parallel", 3, "pipeline=3"},
      {"09_3d_parallel",
       8,
       "data=2,pipeline=2,tensor=2",
       {"--tensor-parallel-size", "2", "--pipeline-parallel-size", "2", "--zero-stage", "1"}},
  };
  for (const Run& run : runs) {
    CAPTURE(run.lesson);
    const Scratch folder;
    const ProcessOptions options = {.folder = folder.path()};
    train(run, {"--steps", "1", "--checkpoint", "c", "--export", "model"}, options);
    run_tool({"reshard", "c", "again", "--layout", run.layout}, options);
    const fs::path step = "step_00000001";
    const auto own = files_of(folder.path() / "c" / step);
    CHECK(own.size() == run.num_ranks + 1);
    check_same(own, files_of(folder.path() / "again" / step));
    run_tool({"export", "c", "model again"}, options);
    check_same(files_of(folder.path() / "model"), files_of(folder.path() / "model again"));
  }
}

TEST_CASE("a run goes on from a checkpoint written anew as from the old one") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  train({"09_3d_parallel",
         4,
         "pipeline=2,tensor=2",
         {"--tensor-parallel-size", "2", "--pipeline-parallel-size", "2"}},
        {"--steps", "2", "--checkpoint", "old"}, options);
  run_tool({"reshard", "old", "new", "--layout", "data=2"}, options);
  for (const auto& [from, layout] :
       {std::pair<std::string, std::string>("old", "pipeline=2,tensor=2"), {"new", "data=2"}}) {
    const std::string printed = train(
        {"03_zero1", 2, "data=2"},
        {"--steps", "3", "--checkpoint", from, "--resume", "--dump", "from_" + from}, options);
    CHECK_THAT(printed, ContainsSubstring(concat("  resumed  after step 2 from ", from,
                                                 "/step_00000002, written by 09_3d_parallel (",
                                                 layout, ")\n")));
  }
  const auto from_old = files_of(folder.path() / "from_old");
  CHECK(from_old.size() == 1);
  check_same(from_old, files_of(folder.path() / "from_new"));
}

}  // namespace
}  // namespace ladder
