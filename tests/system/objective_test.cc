// Runs with the masked objective: what they say, dump, keep in checkpoints and refuse.
#include "tests/catch.h"
#include "tests/system/checkpoints.h"

namespace ladder {
namespace {

const Flags kMasked = {"--objective", "masked", "--steps", "3", "--dtype", "fp64"};

TEST_CASE("a masked run counts what it masks; all lessons dump the same") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const ProcessResult one = kSingle.run(kMasked + Flags{"--dump", "one"}, options);
  require_success(one);
  CHECK_THAT(one.out, ContainsSubstring("\n  masked   15 % of the tokens"));
  CHECK_THAT(one.out, ContainsSubstring("the mask is token 255\n"));
  CHECK_THAT(one.out, ContainsSubstring("counted tokens: "));
  CHECK_THAT(one.out, !ContainsSubstring("differs"));
  CHECK_THAT(one.out, !ContainsSubstring("sample"));
  for (const LessonRun& run :
       {LessonRun{"05_zero3", 2}, {"09_3d_parallel", 4, {"--tensor-parallel-size", "2"}}}) {
    const ProcessResult result = run.run(kMasked + Flags{"--dump", run.lesson}, options);
    require_success(result);
    CHECK_THAT(result.out, ContainsSubstring("counted tokens: "));
    CHECK_THAT(result.out, !ContainsSubstring("differs"));
    check_equal_dumps("one", run.lesson, "1e-11", options);
  }
}

TEST_CASE("--objective causal is no flag: the same bits") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  require_success(kSingle.run({"--steps", "2", "--dump", "without"}, options));
  require_success(
      kSingle.run({"--steps", "2", "--dump", "with", "--objective", "causal"}, options));
  CHECK(bytes_of(folder.path() / "with" / dump(2)) ==
        bytes_of(folder.path() / "without" / dump(2)));
}

TEST_CASE("a masked run begins with weights of a causal one, and does not go on with its steps") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  require_success(
      kSingle.run({"--steps", "2", "--export", "causal", "--checkpoint", "steps"}, options));
  require_success(
      kSingle.run({"--steps", "2", "--init", "causal", "--objective", "masked"}, options));
  const ProcessResult other = kSingle.run(
      {"--steps", "4", "--checkpoint", "steps", "--resume", "--objective", "masked"}, options);
  check_user_error(other, {"is of another model", "--objective masked"});
}

TEST_CASE("what a masked model cannot do is refused in one line") {
  const auto refused = [](const std::string& lesson, size_t num_ranks, const Flags& flags,
                          const std::string& why) {
    check_refused(num_ranks,
                  Flags{lesson_path(lesson), "--model", "nano", "--objective", "masked"} + flags,
                  {why});
  };
  refused("01_single_gpu", 1, {"--export", "folder"}, "--export folder: the model is trained with");
  refused("01_single_gpu", 1, {"--prompt", "In"}, "--prompt: a model of --objective masked");
  refused("01_single_gpu", 1, {"--vocab", "120"}, "is the mask");
  refused("09_3d_parallel", 2, {"--context-parallel-size", "2"},
          "--objective masked: ranks that share sequences");
}

}  // namespace
}  // namespace ladder
