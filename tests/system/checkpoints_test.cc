// Checkpoints of whole runs: what resumes goes on as if it had never stopped, on any layout, and a
// run that dies leaves only complete checkpoints.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/sample.h"
#include "tests/system/checkpoints.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

// Runs five steps with a checkpoint after each, goes back to the one after step 2, and goes on.
// Fails the test unless steps 3 to 5 have the same bits.
void check_resumes_bitwise(const LessonRun& layout, const Flags& flags = {}) {
  CAPTURE(layout.lesson, layout.flags, flags);
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const Flags run = flags + Flags{"--steps", "5", "--checkpoint", "c"};
  require_success(layout.run(run + Flags{"--checkpoint-every", "1", "--dump", "whole"}, options));
  for (int step : {3, 4, 5}) fs::remove_all(folder.path() / checkpoint(step));
  const ProcessResult resumed = layout.run(run + Flags{"--resume", "--dump", "resumed"}, options);
  require_success(resumed);
  CHECK_THAT(resumed.out, ContainsSubstring("resumed  after step 2 from c/step_00000002"));
  CHECK_THAT(resumed.out, !ContainsSubstring("changed"));
  CHECK_THAT(resumed.out, !ContainsSubstring("differs"));
  CHECK_FALSE(fs::exists(folder.path() / "resumed" / dump(2)));
  for (int step : {3, 4, 5}) {
    INFO("step " << step);
    CHECK(bytes_of(folder.path() / "resumed" / dump(step)) ==
          bytes_of(folder.path() / "whole" / dump(step)));
  }
}

TEST_CASE("every lesson resumes with the bits of the run that never stopped") {
  testing::Sample sample(2);
  check_resumes_bitwise(kSingle);
  for (const char* lesson :
       {"02_ddp", "03_zero1", "04_zero2", "05_zero3", "06_offload", "07_tensor_parallel",
        "08_pipeline_parallel", "10_mixed_precision", "13_sequence_parallel", "14_context_parallel",
        "16_pipeline_schedules"}) {
    if (sample.takes()) check_resumes_bitwise({lesson, 2});
  }
  check_resumes_bitwise(kThreeD);
  check_resumes_bitwise({"09_3d_parallel", 4, {"--pipeline-parallel-size", "2"}},
                        {"--zero-stage", "1"});
  check_resumes_bitwise({"06_offload", 2},
                        {"--zero-stage", "3", "--offload", "optimizer,parameters"});
}

TEST_CASE("every dtype resumes with the same bits, fp16 with its loss scale in motion") {
  check_resumes_bitwise({"05_zero3", 3}, {"--dtype", "fp64"});
  check_resumes_bitwise({"05_zero3", 3}, {"--dtype", "bf16"});
  check_resumes_bitwise(kThreeD, {"--dtype", "bf16"});
  check_resumes_bitwise({"10_mixed_precision", 2}, {"--dtype", "bf16", "--no-master-weights"});
  // It overflows in the first steps, and doubles after two good ones.
  const Flags fp16 = {"--dtype",      "fp16", "--initial-scale",     "16777216",
                      "--hysteresis", "2",    "--loss-scale-window", "2"};
  check_resumes_bitwise({"10_mixed_precision", 2}, fp16);
}

TEST_CASE("what is trained in part resumes with the same bits") {
  check_resumes_bitwise(kSingle, {"--train", "bias"});
  check_resumes_bitwise({"05_zero3", 2}, {"--train", "last-2", "--dtype", "bf16"});
  check_resumes_bitwise({"06_offload", 2}, {"--train", "last-1", "--checkpoint-async"});
}

TEST_CASE("a masked run resumes with the same bits") {
  check_resumes_bitwise({"02_ddp", 2}, {"--objective", "masked"});
}

TEST_CASE("with Muon what resumes has the same bits, and another optimizer is refused") {
  const Flags muon = {"--optimizer", "muon"};
  // The rate is constant, because runs that go on have another number of steps.
  const Flags fp64 = {"--dtype",         "fp64", "--warmup-steps",      "0",
                      "--learning-rate", "1e-3", "--min-learning-rate", "1e-3"};
  check_resumes_bitwise(kSingle, muon + Flags{"--dtype", "bf16"});
  check_resumes_bitwise({"02_ddp", 2}, muon + Flags{"--checkpoint-async"});
  check_resumes_bitwise({"20_muon", 3}, {"--dtype", "bf16"});
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const auto run = [&](const LessonRun& layout, const Flags& flags, const char* steps) {
    return layout.run(flags + fp64 + Flags{"--steps", steps, "--checkpoint", "c", "--resume"},
                      options);
  };
  require_success(run({"02_ddp", 4}, muon, "1"));
  const ProcessResult other = run(kSingle, muon, "2");
  require_success(other);
  CHECK_THAT(other.out, ContainsSubstring("24 matrices x 1 step = 24 calls, measured 24\n"));
  const ProcessResult replicated = run({"02_ddp", 2}, muon, "4");
  require_success(replicated);
  CHECK_THAT(replicated.out,
             ContainsSubstring("24 matrices x 2 steps x 2 copies = 96 calls, measured 96\n"));
  const ProcessResult homes = run({"20_muon", 3}, muon, "5");
  require_success(homes);
  CHECK_THAT(homes.out, ContainsSubstring("24 matrices x 1 step = 24 calls, measured 24\n"));
  const ProcessResult sliced = run({"07_tensor_parallel", 4}, muon, "6");
  require_success(sliced);
  const ProcessResult straight = kSingle.run(muon + fp64 + Flags{"--steps", "6"}, options);
  const auto last_loss = [](const std::string& out) {
    const size_t begin = out.find("step 6  validation loss");
    return out.substr(begin, out.find('\n', begin) - begin);
  };
  CHECK(last_loss(sliced.out) == last_loss(straight.out));
  CHECK_THAT(last_loss(straight.out), ContainsSubstring("validation loss"));
  const ProcessResult adamw = run(kSingle, {}, "7");
  CHECK(adamw.status == 2);
  CHECK_THAT(adamw.err, ContainsSubstring("--optimizer was muon, which keeps other moments"));
}

TEST_CASE("on a device, and while training goes on") {
  const std::string device = device_name();
  if (!device.empty()) {
    check_resumes_bitwise({"05_zero3", 2}, {"--device", device});
    check_resumes_bitwise({"06_offload", 2}, {"--device", device, "--checkpoint-async"});
  }
  check_resumes_bitwise({"05_zero3", 2}, {"--checkpoint-async"});
  check_resumes_bitwise(kThreeD, {"--checkpoint-async"});
}

TEST_CASE("writing checkpoints changes no bit of the run") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  require_success(kSingle.run({"--steps", "3", "--dump", "without"}, options));
  require_success(kSingle.run(
      {"--steps", "3", "--dump", "with", "--checkpoint", "c", "--checkpoint-every", "1"}, options));
  for (int step : {1, 2, 3}) {
    CHECK(bytes_of(folder.path() / "with" / dump(step)) ==
          bytes_of(folder.path() / "without" / dump(step)));
  }
}

// Each takes two steps and goes on with the next; lesson 01 takes all steps without a stop. In fp64
// nothing but the order of sums differs, so the last dump agrees as those of all layouts do.
TEST_CASE("any layout goes on with the checkpoint of any other") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const std::vector<LessonRun> layouts = {
      {"02_ddp", 4},
      {"05_zero3", 3},
      kThreeD,
      {"06_offload", 2},
      {"08_pipeline_parallel", 3},
      {"07_tensor_parallel", 4},
      {"13_sequence_parallel", 2},
      {"14_context_parallel", 4, {"--context-parallel-size", "2"}},
      {"16_pipeline_schedules", 2, {"--schedule", "zb-v"}},
      kSingle,
      {"10_mixed_precision", 2, {"--zero-stage", "1"}}};
  // The learning rate is the same in all steps, so --steps decides nothing else.
  const Flags run = {
      "--dtype",        "fp64", "--learning-rate", "1e-3", "--min-learning-rate", "1e-3",
      "--warmup-steps", "0"};
  int step = 0;
  for (const LessonRun& layout : layouts) {
    step += 1;
    const std::string steps = std::to_string(step);
    const ProcessResult result =
        layout.run(run + Flags{"--steps", steps, "--checkpoint", "c", "--resume", "--keep", "2",
                               "--dump", "chain"},
                   options);
    require_success(result);
    if (step == 1) continue;
    CHECK_THAT(result.out, ContainsSubstring(concat("resumed  after step ", step - 1)));
    CHECK_THAT(result.out, ContainsSubstring("changed  layout"));
  }
  require_success(
      kSingle.run(run + Flags{"--steps", std::to_string(step), "--dump", "whole"}, options));
  for (int s = 1; s <= step; ++s) {
    check_equal_dumps("chain/" + dump(s), "whole/" + dump(s), "1e-11", options);
  }
  CHECK(fs::exists(folder.path() / checkpoint(step - 1)));
  CHECK_FALSE(fs::exists(folder.path() / checkpoint(step - 2)));  // --keep 2
}

// A token shard of zeros, in llm.c's format.
std::string token_shard(uint16_t num_tokens) {
  std::string shard(256 * sizeof(int32_t) + num_tokens * sizeof(uint16_t), '\0');
  const int32_t begin[] = {20240520, 1, num_tokens};
  std::memcpy(shard.data(), begin, sizeof begin);
  return shard;
}

TEST_CASE("what differs from the run that wrote the checkpoint is said, a line each") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const Flags to = {"--checkpoint", "c", "--resume"};
  const ProcessResult first = kSingle.run(to + Flags{"--steps", "1"}, options);
  require_success(first);
  CHECK_THAT(first.out, ContainsSubstring("resumed  nothing: the folder has no checkpoint yet\n"));
  const ProcessResult same = kSingle.run(to + Flags{"--steps", "1"}, options);
  require_success(same);
  CHECK_THAT(same.out, ContainsSubstring("resumed  nothing is left to train\n"));
  const ProcessResult changed =
      kSingle.run(to + Flags{"--steps", "2", "--learning-rate", "0.25", "--seed", "7", "--dtype",
                             "bf16", "--data", folder.write("other.bin", token_shard(9000))},
                  options);
  require_success(changed);
  for (const char* line : {"changed  --learning-rate 0.25, was 0.002\n",
                           "changed  --seed 7, was 1\n", "changed  --dtype bf16, was fp32\n",
                           "changed  --steps 2, was 1: another learning rate from here\n",
                           "changed  --data 9000 tokens with hash ",
                           "changed  vocabulary a tokenizer's, was bytes\n"}) {
    CHECK_THAT(changed.out, ContainsSubstring(line));
  }
}

TEST_CASE("flags that only one lesson has are compared, too") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const auto resume = [&](const std::string& lesson, const Flags& flags) {
    const ProcessResult result = LessonRun{lesson, 1}.run(
        Flags{"--steps", "1", "--checkpoint", "c", "--resume"} + flags, options);
    require_success(result);
    return result.out;
  };
  const std::string lesson = "12_gradient_compression";
  resume(lesson, {"--compression", "int8", "--block-size", "64"});
  CHECK_THAT(resume(lesson, {"--compression", "int8", "--block-size=64"}),
             !ContainsSubstring("changed"));
  CHECK_THAT(resume(lesson, {"--compression", "powersgd", "--no-overlap", "--keep", "5"}),
             ContainsSubstring("changed  --block-size not given, was 64\n"
                               "  changed  --compression powersgd, was int8\n"
                               "  changed  --no-overlap true, was not given\n") &&
                 !ContainsSubstring("--keep"));
  CHECK_THAT(resume("01_single_gpu", {}),
             ContainsSubstring("changed  --compression (no flag of 01_single_gpu), was int8\n"));
  CHECK_THAT(resume("10_mixed_precision", {"--loss-scale", "8", "--reduce-dtype", "bf16"}),
             ContainsSubstring("changed  --loss-scale 8, was not given\n"
                               "  changed  --reduce-dtype bf16, was not given\n"));
}

// How many runs the test kills. The whole proof, 200 of them, takes minutes: set LADDER_KILLS=200.
int num_kills() {
  const char* const kills = std::getenv("LADDER_KILLS");
  return kills == nullptr ? 6 : std::atoi(kills);
}

// Whether the newest checkpoint in the folder is another one than `before`, which it then becomes.
bool is_newer(const fs::path& checkpoints, std::string& before) {
  std::string newest;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(checkpoints, ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("step_")) newest = std::max(newest, name);
  }
  return std::exchange(before, newest) != newest;
}

// Runs `layout` and kills all of its processes at the same time, so many milliseconds after the
// start or, if `waits`, after it has written a checkpoint. They are found by the path of the
// folder, which is in their flags.
ProcessResult run_and_kill(const LessonRun& layout, const Flags& flags, const Scratch& folder,
                           std::chrono::milliseconds moment, bool waits) {
  std::string newest;
  is_newer(folder.path() / "c", newest);
  std::atomic<bool> has_ended = false;
  std::thread killer([&] {
    while (waits && !has_ended && !is_newer(folder.path() / "c", newest)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(moment);
    run_process({"pkill", "-KILL", "-f", folder.path().string()});
  });
  const ProcessResult result = layout.run(flags, {.folder = folder.path()});
  has_ended = true;
  killer.join();
  // Rank 0 keeps the folder locked until it is gone.
  const fs::path checkpoints = folder.path() / "c";
  if (fs::exists(checkpoints)) run_process({"flock", "--timeout", "30", checkpoints, "true"});
  return result;
}

TEST_CASE("killed at any moment, a run leaves complete checkpoints and goes on to the same bits") {
  const LessonRun zero = {"05_zero3", 2};
  const Scratch folder;
  const std::string path = folder.path() / "c";
  const Flags run = {"--steps", "40", "--dump", "dump"};
  require_success(zero.run(run, {.folder = folder.path()}));
  const fs::path last = folder.path() / "dump/step_000040.safetensors";
  const std::string expected = bytes_of(last);
  fs::remove(last);
  std::mt19937 random(1);
  const Flags safe =
      run + Flags{"--checkpoint", path, "--checkpoint-every", "1", "--resume", "--keep", "3"};
  // A run that ends before it would be killed counts as ended only.
  int num_killed = 0, num_resumed = 0, num_ended = 0;
  while (num_killed < num_kills() || num_ended == 0) {
    const Flags way = random() % 2 == 0 ? Flags{} : Flags{"--checkpoint-async"};
    // However slow the machine is, the last run that is killed has left a checkpoint.
    const bool is_last = num_killed >= num_kills();
    const bool waits = random() % 3 != 0 || num_killed + 1 == num_kills();
    const std::chrono::milliseconds moment(random() % (waits ? 200 : 1200));
    INFO("run " << num_killed + num_ended << ", killed after " << moment.count() << " ms"
                << (waits ? " and a checkpoint" : ""));
    const ProcessResult result = is_last ? zero.run(safe + way, {.folder = folder.path()})
                                         : run_and_kill(zero, safe + way, folder, moment, waits);
    CAPTURE(result.out, result.err);
    num_resumed += result.out.find("resumed  after step") != std::string::npos;
    CHECK(result.status != 2);  // nothing was found damaged
    REQUIRE((result.status == 0 || !is_last));
    ++(result.status == 0 ? num_ended : num_killed);
    if (result.status != 0) continue;
    CHECK(bytes_of(last) == expected);
    fs::remove(last);
    fs::remove_all(path);
  }
  INFO(num_killed << " killed, " << num_resumed << " resumed, " << num_ended << " ended");
  CHECK(num_resumed > 0);
}

}  // namespace
}  // namespace ladder
