// --attention-kernel in all lessons: none of them may take the flag and go on with other kernels.
#include <CLI/CLI.hpp>
#include <set>

#include "common/train/flags/options.h"
#include "common/train/program/prediction.h"
#include "tests/catch.h"
#include "tests/lessons/all_trainers.h"

namespace ladder {
namespace {

TEST_CASE("every trainer has cuDNN compute attention, if asked") {
  std::set<std::string> lessons;
  for (const Program& program :
       testing::of_all_trainers([]<class T>() { return make_program<T>(); })) {
    CAPTURE(program.lesson.name);
    lessons.insert(program.lesson.name);
    Options options(program.lesson, program.add_flags);
    const char* const argv[] = {program.lesson.name, "--model", "nano", "--device", "cpu"};
    CHECK(options.parse(static_cast<int>(std::size(argv)), argv) == "");
    const ProcessGrid grid = program.grid(1, 0);
    RunConfig config = options.resolve(grid);
    if (program.adjust) program.adjust(config);
    CHECK_NOTHROW(predict_memory(program, config, grid));
    // There is no GPU for it here, and that is what the trainer hears.
    config.attention_kernel = AttentionKernel::cudnn;
    CHECK_THROWS_WITH(predict_memory(program, config, grid), ContainsSubstring("cuDNN"));
  }
  CHECK(lessons.size() == std::tuple_size_v<testing::AllTrainers>);
}

}  // namespace
}  // namespace ladder
