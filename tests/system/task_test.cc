// Runs on examples: pairs, of which the answers count, and labelled texts for a head.
#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/checkpoints.h"

namespace ladder {
namespace {

// Sums: "12+7=" and "19". Answers have one to three tokens, so ranks have different counts.
std::string sums() {
  std::string text;
  for (int a = 0; a < 60; ++a) text += concat(a, "+", 2 * a, "=\t", 3 * a, "\n");
  return text;
}

constexpr int kLines = 60;

Flags on_task(const std::string& path) {
  return {"--task", path, "--steps", "3", "--dtype", "fp64"};
}

// What stands after "counted tokens: " in the end table.
std::string counted_of(const ProcessResult& result) {
  const std::string before = "counted tokens: ";
  const size_t begin = result.out.find(before);
  REQUIRE(begin != std::string::npos);
  const size_t end = result.out.find('\n', begin);
  return result.out.substr(begin + before.size(), end - begin - before.size());
}

TEST_CASE("pairs: all divisions compute what one rank does, and count the same tokens") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const Flags task = on_task(folder.write("sums.tsv", sums()));
  const ProcessResult one = kSingle.run(task + Flags{"--dump", "one"}, options);
  require_success(one);
  CHECK_THAT(one.out, ContainsSubstring(concat(kLines, " examples (6 for validation)")));
  const std::string counted = counted_of(one);
  CHECK_THAT(counted, ContainsSubstring(" of 1,152 ("));  // 3 steps of 12 sequences of 32 tokens
  CHECK_THAT(one.out, !ContainsSubstring("differs"));
  for (const LessonRun& run : {LessonRun{"02_ddp", 4, {"--micro-batch-size", "1"}},
                               {"05_zero3", 2},
                               {"14_context_parallel", 4},
                               kThreeD}) {
    CAPTURE(run.lesson);
    const ProcessResult result = run.run(task + Flags{"--dump", run.lesson}, options);
    require_success(result);
    CHECK(counted_of(result) == counted);
    CHECK_THAT(result.out, !ContainsSubstring("differs"));
    check_equal_dumps("one", run.lesson, "1e-11", options);
  }
}

// The accuracies of a run's lines of evaluations.
std::vector<std::string> accuracies(const ProcessResult& result) {
  std::vector<std::string> found;
  const std::string before = "  accuracy ";
  for (size_t at = 0; (at = result.out.find(before, at)) != std::string::npos;) {
    at += before.size();
    found.push_back(result.out.substr(at, 6));
  }
  return found;
}

TEST_CASE("a head learns labels, alone or with the model, on any ranks") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  for (const char* train : {"head", "all"}) {
    const Flags flags = {"--train", train, "--labels", "Ge,Psa,Luke,Acts",
                         "--steps", "4",   "--dtype",  "fp64"};
    const std::string dumped = concat("one_", train);
    const ProcessResult one = kSingle.run(flags + Flags{"--dump", dumped}, options);
    require_success(one);
    CHECK_THAT(one.out, ContainsSubstring("4 labels"));
    CHECK(accuracies(one).size() == 2);
    CHECK_THAT(counted_of(one), ContainsSubstring("48 of 1,536 (3.12 %)"));  // one of each text
    for (const LessonRun& run : {LessonRun{"02_ddp", 4, {"--micro-batch-size", "1"}},
                                 {"07_tensor_parallel", 2},
                                 {"09_3d_parallel", 4, {"--tensor-parallel-size", "2"}}}) {
      CAPTURE(run.lesson, train);
      const std::string there = concat(run.lesson, train);
      const ProcessResult result = run.run(flags + Flags{"--dump", there}, options);
      require_success(result);
      CHECK(accuracies(result) == accuracies(one));
      CHECK_THAT(result.out, !ContainsSubstring("differs"));
      check_equal_dumps(dumped, there, "1e-11", options);
    }
  }
}

TEST_CASE("a head tells apart what a file's texts have in them") {
  const Scratch folder;
  std::string text;
  for (int i = 0; i < 300; ++i) {
    text += concat(i % 2 == 0 ? "even" : "odd", "\tnumber ", i, i % 2 == 0 ? " a" : " b", "\n");
  }
  const ProcessResult result =
      kSingle.run({"--task", folder.write("labels.tsv", text), "--labels", "even,odd", "--train",
                   "head", "--steps", "60", "--learning-rate", "0.05", "--metrics", "metrics"},
                  {.folder = folder.path()});
  require_success(result);
  CHECK(accuracies(result).back() == "1.0000");
  CHECK_THAT(read_text(folder.path() / "metrics"),
             ContainsSubstring("\"validation_accuracy\":1.0"));
}

TEST_CASE("a new head begins on weights that have none, and resumes from checkpoints") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  require_success(kSingle.run({"--steps", "2", "--export", "base"}, options));
  const Flags head = {"--train", "head", "--dtype", "fp64"};
  require_success(kSingle.run(head + Flags{"--init", "base", "--steps", "4", "--checkpoint", "c",
                                           "--checkpoint-every", "2"},
                              options));
  require_success(kSingle.run(
      head + Flags{"--init", "base", "--steps", "4", "--checkpoint", "c", "--resume"}, options));
  const ProcessResult other = kSingle.run(
      head + Flags{"--labels", "Ge,Psa", "--steps", "6", "--checkpoint", "c", "--resume"}, options);
  check_user_error(other, {"--labels"});
}

TEST_CASE("a run that resumes says that the task's file has changed") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const std::string path = folder.write("sums.tsv", sums());
  require_success(kSingle.run(on_task(path) + Flags{"--checkpoint", "c"}, options));
  folder.write("sums.tsv", sums() + "1+1=\t2\n");
  const ProcessResult result = kSingle.run(
      {"--task", path, "--steps", "4", "--dtype", "fp64", "--checkpoint", "c", "--resume"},
      options);
  require_success(result);
  CHECK_THAT(result.out, ContainsSubstring("--task"));
}

TEST_CASE("what cannot be learned so is refused in one line") {
  const Scratch folder;
  const std::string path = folder.write("sums.tsv", sums());
  const auto refused = [&](const Flags& flags, const std::string& why) {
    CAPTURE(why);
    check_user_error(run_process(Flags{lesson_path("01_single_gpu"), "--model", "nano"} + flags,
                                 {.folder = folder.path()}),
                     {why});
  };
  refused({"--task", path, "--data", path}, "--data: --task has examples to learn from");
  refused({"--train", "head", "--data", path}, "--data: a classification head has examples");
  refused({"--task", path, "--train", "head"}, "--train head: the model has no head; --labels");
  refused({"--task", path, "--labels", "a,b"}, "sums.tsv: line 1 has the label \"0+0=\"");
  refused({"--labels", "Ge"}, "--labels: one label tells nothing apart");
  refused({"--labels", "Ge,Ge"}, "--labels: Ge is there twice");
  refused({"--labels", "Ge,Tobit"}, "which has no \"Tobit\"");
  refused({"--labels", "Ge,Psa", "--untied"}, "--untied: the head of --labels");
  refused({"--labels", "Ge,Psa", "--sample", "5"}, "--sample: a model with a head");
  refused({"--labels", "Ge,Psa", "--export", "out"}, "--export out: a classification head");
  refused({"--task", path, "--vocab", "50"}, "sums.tsv: line 1 cannot become tokens: token");
  refused({"--task", "nowhere"}, "--task nowhere");
  refused({"--task", path, "--objective", "masked"}, "--objective masked: --task says what");
  check_user_error(run_ranks(4, Flags{lesson_path("07_tensor_parallel"), "--model", "tiny",
                                      "--train", "head", "--labels", "Ge,Psa"}),
                   {"2 labels cannot be split among 4 ranks"});
}

}  // namespace
}  // namespace ladder
