// A lesson starts with the same flags from the folder that it has written, whatever the flags are.
#include <algorithm>

#include "common/model/published_config.h"
#include "common/train/flags/options.h"
#include "common/train/program/program.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"
#include "tests/lessons/all_trainers.h"
#include "tests/lessons/drawn_runs.h"

namespace ladder {
namespace {

using namespace testing;

// Returns the model that the flags of a run make, with --init FOLDER if that is not empty.
template <class T>
ModelConfig model_of(const DrawnRun& run, const std::string& folder) {
  const Program program = make_program<T>();
  Options options(program.lesson, program.add_flags);
  std::vector<const char*> argv = {"program"};
  for (const std::string& flag : run.flags) argv.push_back(flag.c_str());
  if (!folder.empty()) argv.insert(argv.end(), {"--init", folder.c_str()});
  options.parse(static_cast<int>(argv.size()), argv.data());
  RunConfig config = options.resolve(program.grid(run.num_ranks, 0));
  if (program.adjust) program.adjust(config);
  if (!folder.empty()) require_same_model(folder + "/config.json", config.model);
  return config.model;
}

// Writes the config.json of the run's model and reads it. Returns whether there is such a file: if
// not, the lesson refuses the run, or transformers has no such model.
template <class T>
bool starts_again(const DrawnRun& run, const TestFolder& folder) {
  ModelConfig model;
  try {
    model = model_of<T>(run, "");
    require_publishable(folder.path(), model);
  } catch (const UserError&) {
    return false;
  }
  folder.write("config.json", published_config(model, {}));
  CHECK_NOTHROW(model_of<T>(run, folder.path()));
  return true;
}

TEST_CASE("a lesson takes the folder that it has written, with the flags of the run") {
  const TestFolder folder;
  size_t num_tried = 0, num_experts = 0;
  for (uint32_t number = 0; number < 4000; ++number) {
    DrawnRun run = draw_run(number, 0);
    if (number >= 300 && run.lesson != "15_expert_parallel") continue;  // few of its runs remain
    const bool is_llama = std::ranges::count(run.flags, "rmsnorm") > 0;
    // Without a preset the file's sizes are taken.
    const bool has_preset = number % 4 > 0;
    if (has_preset)
      run.flags.insert(run.flags.begin(), {"--model", is_llama ? "nano-llama" : "nano"});
    INFO("number " << number << ": " << run.text());
    const bool is_tried =
        of_trainer(run.lesson, [&]<class T>() { return starts_again<T>(run, folder); });
    num_tried += is_tried;
    num_experts += is_tried && run.lesson == "15_expert_parallel" && has_preset;
  }
  CHECK(num_tried > 150);
  CHECK(num_experts > 0);
}

}  // namespace
}  // namespace ladder
