// A run that goes on from a checkpoint, in this process, compared with one that never stopped.
#include <algorithm>
#include <filesystem>

#include "common/train/run/run.h"
#include "lessons/17_elastic/trainer.h"
#include "tests/catch.h"
#include "tools/programs/scratch.h"
#include "tools/state/comparison/compare_files.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

void train(const std::vector<std::string>& flags) {
  std::vector<std::string> words = {"17_elastic", "--model",
                                    "nano",       "--steps",
                                    "6",          "--threads",
                                    "1",          "--sample",
                                    "0",          "--evaluate-every",
                                    "0",          "--warmup-steps",
                                    "4",          "--checkpoint-every",
                                    "3"};
  words.insert(words.end(), flags.begin(), flags.end());
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  REQUIRE(run(make_program<ElasticTrainer>(), static_cast<int>(argv.size()), argv.data()) == 0);
}

TEST_CASE("a run that resumes has the bits of one that never stopped") {
  const Scratch folder;
  const auto path = [&](const std::string& name) { return (folder.path() / name).string(); };
  train({"--checkpoint", path("c"), "--dump", path("whole")});
  // As if it had been killed after step 3: what came later is gone.
  fs::remove_all(path("c/step_00000006"));
  train({"--checkpoint", path("c"), "--resume", "--dump", path("rest")});
  for (const char* const step : {"1", "2", "3"}) {
    CHECK_FALSE(fs::exists(path(concat("rest/step_00000", step, ".safetensors"))));
    fs::remove(path(concat("whole/step_00000", step, ".safetensors")));
  }
  const std::vector<FileDifference> files = compare_paths(path("whole"), path("rest"), {});
  REQUIRE(files.size() == 3);
  for (const FileDifference& file : files) {
    CAPTURE(file.name, file.remark);
    CHECK(file.remark.empty());
    for (const TensorDifference& tensor : file.tensors) {
      INFO(tensor.name << " differs by " << tensor.max_relative);
      CHECK(tensor.passes);
    }
  }
}

}  // namespace
}  // namespace ladder
