// Runs that train only a part of the model: what they say, dump, export and refuse.
#include <set>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/checkpoints.h"

namespace ladder {
namespace {

// Those of a file that begin so.
std::set<std::string> names_in(const fs::path& path, const std::string& prefix) {
  std::set<std::string> names;
  const Safetensors file = Safetensors::parse(read_text(path));
  for (const auto& [name, tensor] : file.header.items()) {
    if (name.starts_with(prefix)) names.insert(name.substr(prefix.size()));
  }
  return names;
}

// kShort has four blocks of C = 32: 12 C^2 + 13 C each, 2 C in the final norm.
TEST_CASE("a run says what it trains, and its tables hold; all lessons dump the same") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const Flags train = {"--train", "last-1", "--steps", "2", "--dtype", "fp64"};
  const ProcessResult one = kSingle.run(train + Flags{"--dump", "one"}, options);
  require_success(one);
  CHECK_THAT(one.out, ContainsSubstring("\n  trained  --train last-1: 12,768 of 60,096 parameters "
                                        "(21.2 %)\n"));
  CHECK_THAT(one.out, !ContainsSubstring("differs"));
  const fs::path dumped = folder.path() / "one" / dump(2);
  std::set<std::string> trained;
  for (const std::string& name : names_in(dumped, "param.")) {
    if (name.starts_with("h.3.") || name.starts_with("ln_f.")) trained.insert(name);
  }
  CHECK(trained.size() == 14);
  CHECK(names_in(dumped, "param.").size() == 2 + 4 * 12 + 2);
  for (const char* kind : {"grad.", "exp_avg.", "exp_avg_sq."}) {
    CHECK(names_in(dumped, kind) == trained);
  }
  for (const LessonRun& run : {LessonRun{"05_zero3", 2},
                               {"09_3d_parallel", 4, {"--tensor-parallel-size", "2"}},
                               {"08_pipeline_parallel", 2},
                               {"16_pipeline_schedules", 2, {"--schedule", "zb-v"}}}) {
    const ProcessResult result = run.run(train + Flags{"--dump", run.lesson}, options);
    require_success(result);
    CHECK_THAT(result.out, ContainsSubstring("12,768 of 60,096 parameters"));
    CHECK_THAT(result.out, !ContainsSubstring("differs"));
    check_equal_dumps("one", run.lesson, "1e-11", options);
  }
}

TEST_CASE("a run goes on from exported weights, and exports what it has frozen as it was") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  require_success(kSingle.run({"--steps", "2", "--export", "first"}, options));
  require_success(kSingle.run(
      {"--steps", "2", "--init", "first", "--train", "bias", "--export", "second"}, options));
  const auto before = Safetensors::parse(read_text(folder.path() / "first/model.safetensors"));
  const auto after = Safetensors::parse(read_text(folder.path() / "second/model.safetensors"));
  size_t changed = 0;
  for (const auto& [name, tensor] : before.header.items()) {
    if (name == "__metadata__") continue;
    CAPTURE(name);
    const bool is_same = before.bytes_of(name) == after.bytes_of(name);
    CHECK(is_same == !name.ends_with(".bias"));
    changed += is_same ? 0 : 1;
  }
  CHECK(changed == 4 * 6 + 1);
}

TEST_CASE("--train all is no flag: the same bits") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  require_success(kSingle.run({"--steps", "2", "--dump", "without"}, options));
  const ProcessResult all =
      kSingle.run({"--steps", "2", "--dump", "with", "--train", "all"}, options);
  require_success(all);
  CHECK_THAT(all.out, !ContainsSubstring("trained"));
  CHECK(bytes_of(folder.path() / "with" / dump(2)) ==
        bytes_of(folder.path() / "without" / dump(2)));
}

TEST_CASE("what cannot be trained so is refused in one line") {
  const auto refused = [](const std::string& lesson, size_t num_ranks, const Flags& flags,
                          const std::string& why) {
    check_refused(num_ranks, Flags{lesson_path(lesson), "--model", "nano"} + flags, {why});
  };
  refused("01_single_gpu", 1, {"--train", "last-3"}, "--train last-3: the model has 2 blocks");
  refused("01_single_gpu", 1, {"--train", "lor"},
          "--train lor: expected all, bias, head, lora or last-K");
  check_user_error(
      run_process({lesson_path("19_planning"), "--cluster", "h100x8", "--train", "last-1"}),
      {"--train"});
}

}  // namespace
}  // namespace ladder
