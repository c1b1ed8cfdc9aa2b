// Lessons 02 to 06 side by side, as a user runs them: bits, memory caps, wrong flags, devices.

#include <map>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/mpirun.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string> kLessons = {"02_ddp", "03_zero1", "04_zero2", "05_zero3",
                                           "06_offload"};

const Flags kNano = {"--model", "nano", "--steps", "2", "--evaluate-every", "0", "--threads", "1"};
const Flags kOffloadAll = {"--zero-stage", "3", "--offload", "optimizer,parameters"};

// The same bits also after an evaluation, and so the same sample.
TEST_CASE("02 to 06: dumps of one micro-batch a step have the same bits, memory is as predicted") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const Flags flags = {"--model",
                       "nano",
                       "--steps",
                       "2",
                       "--threads",
                       "1",
                       "--evaluate-every",
                       "1",
                       "--global-batch-size",
                       "4",
                       "--sample",
                       "60"};
  std::string first;  // sample
  for (const std::string& lesson : kLessons) {
    const ProcessResult result = run_ranks(
        4, Flags{lesson_path(lesson)} + flags + Flags{"--dump", "out_" + lesson}, options);
    CAPTURE(lesson, result.out, result.err);
    REQUIRE(result.status == 0);
    CHECK_THAT(result.out, !ContainsSubstring("differs"));
    check_equal_dumps("out_02_ddp", "out_" + lesson, "0", options);
    if (first.empty()) first = sample_of(result.out);
    CHECK(sample_of(result.out) == first);
  }
}

TEST_CASE("06: messages instead of shared memory: the same loss, and the staging area is counted") {
  for (const std::string lesson : {"03_zero1", "05_zero3", "06_offload"}) {
    const Flags command = Flags{lesson_path(lesson)} + kNano + Flags{"--global-batch-size", "4"};
    const ProcessResult shared = run_ranks(2, command);
    const ProcessResult messages = run_ranks(2, command + Flags{"--no-shared-memory"});
    CAPTURE(lesson, messages.out, messages.err);
    REQUIRE(messages.status == 0);
    CHECK_THAT(messages.out, !ContainsSubstring("differs"));
    const auto loss_of = [](const std::string& out) {
      const size_t at = out.find("step 2/2  loss ");
      return at == std::string::npos ? "none" : out.substr(at, 40);
    };
    CHECK(loss_of(messages.out) != "none");
    CHECK(loss_of(messages.out) == loss_of(shared.out));
  }
}

TEST_CASE("03 and 06: a trace has every unit's update on every rank") {
  const Scratch folder;
  for (const std::string lesson : {"03_zero1", "06_offload"}) {
    const ProcessResult result =
        run_ranks(2,
                  Flags{lesson_path(lesson)} + kNano +
                      Flags{"--global-batch-size", "2", "--trace", lesson + ".json"},
                  {.folder = folder.path()});
    CAPTURE(lesson, result.out, result.err);
    REQUIRE(result.status == 0);
    const Json trace = Json::parse(read_text(folder.path() / (lesson + ".json")));
    std::map<std::string, int> updates;
    for (const Json& event : trace.at("traceEvents")) {
      const std::string name = event.at("name");
      if (name.ends_with(" update")) ++updates[concat(event.at("pid").get<int>(), " ", name)];
    }
    // wte, wpe, two blocks and ln_f on each of two ranks, in each of two steps.
    CHECK(updates.size() == 2 * 5);
    for (const auto& [name, count] : updates) CHECK(count == 2);
  }
}

// Each lesson's need on four ranks, from its header, is less than that of the one before: a cap in
// between refuses the one and lets the other train.
TEST_CASE("02 to 06: each lesson trains under a cap that refuses the one before") {
  const Flags steps = {"--steps", "1", "--evaluate-every", "0", "--threads", "1"};
  const std::vector<std::pair<std::string, Flags>> ladder = {
      {"02_ddp", {}},
      {"03_zero1", {}},
      {"04_zero2", {}},
      {"05_zero3", {}},
      {"06_offload", kOffloadAll + Flags{"--prefetch", "0"}}};
  const std::vector<std::string> caps = {"28MiB", "26MiB", "25MiB", "22MiB"};  // as in the READMEs
  const auto run = [&](size_t rung, const std::string& cap) {
    return run_ranks(4, Flags{lesson_path(ladder[rung].first)} + ladder[rung].second + steps +
                            Flags{"--device-memory", cap});
  };
  for (size_t rung = 1; rung < ladder.size(); ++rung) {
    const std::string& cap = caps[rung - 1];
    const ProcessResult before = run(rung - 1, cap), after = run(rung, cap);
    CAPTURE(ladder[rung].first, cap, before.err, after.err);
    CHECK(before.status == 1);
    CHECK_THAT(before.err,
               ContainsSubstring("out of device memory") && ContainsSubstring("no room"));
    CHECK(after.status == 0);
  }
}

TEST_CASE("06: over the host's memory, the report") {
  const ProcessResult result =
      run_ranks(2, Flags{lesson_path("06_offload")} + kNano + Flags{"--host-memory", "200KiB"});
  CAPTURE(result.out, result.err);
  CHECK(result.status == 1);
  CHECK_THAT(result.err, ContainsSubstring("out of host memory") && ContainsSubstring("no room"));
}

TEST_CASE("05 and 06: flags that cannot be") {
  const auto check_bad = [](const std::string& lesson, const Flags& flags,
                            const std::vector<std::string>& mentions) {
    CAPTURE(lesson, flags);
    check_user_error(run_ranks(2, Flags{lesson_path(lesson), "--model", "nano"} + flags), mentions);
  };
  for (const std::string value : {"-1", "x", "", "1.5"}) {
    check_bad("05_zero3", {"--prefetch=" + value}, {"--prefetch"});
  }
  check_bad("06_offload", {"--offload", "optimizer,parameters"}, {"--zero-stage 3"});
  check_bad("06_offload", {"--offload", "gradients"}, {"--offload", "optimizer,parameters"});
  check_bad("06_offload", {"--zero-stage", "1"}, {"--zero-stage"});
}

TEST_CASE("02 to 06: precisions that a lesson does not have") {
  for (const std::string& lesson : kLessons) {
    CAPTURE(lesson);
    check_user_error(run_process({lesson_path(lesson), "--dtype", "fp16"}),
                     {"--dtype fp16: " + lesson, "take 10_mixed_precision"});
  }
  check_user_error(run_process({lesson_path("06_offload"), "--dtype", "bf16"}),
                   {"--dtype bf16: 06_offload", "on the host", "take 10_mixed_precision"});
}

TEST_CASE("03 to 06: on a device") {
  const std::string device = device_name();
  if (device.empty()) return;
  for (size_t i = 1; i < kLessons.size(); ++i) {
    const Flags flags = Flags{lesson_path(kLessons[i])} + kNano +
                        Flags{"--device", device, "--global-batch-size", "4"};
    const ProcessResult result =
        run_ranks(2, kLessons[i] == "06_offload" ? flags + kOffloadAll : flags);
    CAPTURE(kLessons[i], result.out, result.err);
    CHECK(result.status == 0);
    CHECK_THAT(result.out, ContainsSubstring("step 2/2") && !ContainsSubstring("differs"));
  }
}

}  // namespace
}  // namespace ladder
