// Lesson 12 as a user runs it: codecs, feedback in checkpoints, a slow network, flags that cannot
// be.
#include <filesystem>

#include "kernels/runtime/check.h"
#include "kernels/runtime/clock.h"
#include "tests/catch.h"
#include "tests/system/failures.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

Flags command(const Flags& flags) {
  return Flags{lesson_path("12_gradient_compression"),
               "--model",
               "nano",
               "--threads",
               "1",
               "--sample",
               "0",
               "--evaluate-every",
               "0"} +
         flags;
}

const Flags kInt8 = {"--compression", "int8", "--error-feedback", "--bucket-bytes", "20KB"};

TEST_CASE("12: every codec trains, with memory and bytes as predicted") {
  for (const char* codec : {"fp16", "int8", "1bit", "powersgd"}) {
    const ProcessResult result =
        run_ranks(2, command({"--steps", "4", "--compression", codec, "--error-feedback"}));
    CAPTURE(codec, result.out);
    require_success(result);
    CHECK_THAT(result.out, ContainsSubstring("step 4/4") && !ContainsSubstring("differs"));
  }
}

TEST_CASE("12: a slow network changes no bit, and takes its time") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const Flags run = kInt8 + Flags{"--steps", "3"};
  require_success(run_ranks(2, command(run + Flags{"--dump", "fast"}), options));
  const Time begin = Clock::now();
  require_success(run_ranks(
      2,
      command(run + Flags{"--dump", "slow", "--no-shared-memory", "--network-bandwidth", "200KB"}),
      options));
  // A rank sends 2 (N - 1) / N = 1 times about 36 KB a step: 3 * 36 KB at 200 KB/s.
  CHECK(seconds_since(begin) > 0.5);
  for (int step : {1, 2, 3}) {
    const std::string file = concat("step_00000", step, ".safetensors");
    CHECK(read_text(folder.path() / "fast" / file) == read_text(folder.path() / "slow" / file));
  }
}

TEST_CASE("12: feedback survives a checkpoint, to the bit") {
  for (const Flags& compression :
       {kInt8 + Flags{"--stochastic-rounding"},
        Flags{"--compression", "1bit", "--error-feedback", "--block-size", "32"},
        Flags{"--compression", "powersgd"}}) {
    const Scratch folder;
    const ProcessOptions options = {.folder = folder.path()};
    const Flags run = compression + Flags{"--steps", "4", "--checkpoint", "c"};
    require_success(run_ranks(3,
                              command(run + Flags{"--global-batch-size", "12", "--checkpoint-every",
                                                  "1", "--dump", "whole"}),
                              options));
    for (int step : {3, 4}) fs::remove_all(folder.path() / concat("c/step_0000000", step));
    const ProcessResult resumed = run_ranks(
        3, command(run + Flags{"--global-batch-size", "12", "--resume", "--dump", "rest"}),
        options);
    require_success(resumed);
    CHECK_THAT(resumed.out,
               ContainsSubstring("after step 2") && !ContainsSubstring("starts from zero"));
    for (int step : {3, 4}) {
      const std::string file = concat("step_00000", step, ".safetensors");
      CHECK(read_text(folder.path() / "whole" / file) == read_text(folder.path() / "rest" / file));
    }
  }
}

TEST_CASE("12: where feedback means nothing, a line says that it starts from zero") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const auto run = [&](size_t ranks, const char* steps, const Flags& more) {
    const ProcessResult result = run_ranks(
        ranks, command(Flags{"--checkpoint", "c", "--resume", "--steps", steps} + more), options);
    require_success(result);
    return result.out;
  };
  run(2, "1", {});
  CHECK_THAT(run(2, "2", kInt8),
             ContainsSubstring(
                 "resumed  error feedback starts from zero: the checkpoint has none that fits\n"));
  CHECK_THAT(run(4, "3", kInt8),
             ContainsSubstring("resumed  error feedback starts from zero: the checkpoint "
                               "has that of 2 ranks, not of 4\n"));
  // Who has no feedback does not miss it.
  CHECK_THAT(run(2, "4", {}), !ContainsSubstring("error feedback"));
}

TEST_CASE("12: flags that cannot be are one line and status 2") {
  const auto refused = [](const Flags& flags, const std::vector<std::string>& mentions) {
    CAPTURE(flags);
    check_refused(2, command(flags), mentions);
  };
  refused({"--compression", "int4"}, {"--compression", "int4", "fp8-e4m3"});
  refused({"--error-feedback"}, {"--error-feedback with --compression none"});
  refused({"--compression", "fp16", "--block-size", "64"},
          {"--block-size with --compression fp16", "it has no scales"});
  for (const char* size : {"0", "33", "131072"}) {
    refused({"--compression", "1bit", "--block-size", size},
            {"--block-size", concat("'", size, "'"), "a multiple of 32 from 32 to 65536"});
  }
  refused({"--compression", "1bit", "--stochastic-rounding"},
          {"--stochastic-rounding with --compression 1bit", "int8"});
  refused({"--compression", "int8", "--powersgd-rank", "2"},
          {"--powersgd-rank with --compression int8"});
  refused({"--compression", "powersgd", "--powersgd-rank", "0"}, {"--powersgd-rank", "0"});
  refused({"--compression", "int8", "--dtype", "fp16"}, {"--dtype fp16", "10_mixed_precision"});
  refused({"--network-bandwidth", "0"}, {"--network-bandwidth", "'0'", "64MiB"});
  refused({"--network-bandwidth", "1MB"}, {"--network-bandwidth 1000000", "--no-shared-memory"});
}

}  // namespace
}  // namespace ladder
