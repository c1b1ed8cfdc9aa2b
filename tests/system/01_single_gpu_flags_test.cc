// Lesson 01 with flags that cannot be: status 2, one line that names the mistake, nothing written.

#include "kernels/runtime/check.h"
#include "kernels/runtime/device.h"
#include "tests/catch.h"
#include "tests/system/mpirun.h"
#include "tests/system/single_gpu.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

// Runs with `flags` and with outputs asked for, none of which may come to be.
void check_bad_flags(const Flags& flags, const std::vector<std::string>& mentions) {
  const Scratch folder;
  const ProcessResult result =
      run_single_gpu(flags + Flags{"--dump", "dump", "--metrics", "metrics.jsonl"},
                     {.folder = folder.path(), .time_limit = std::chrono::seconds(60)});
  CAPTURE(flags);
  check_user_error(result, mentions);
  CHECK(folder.files() == std::vector<std::string>{});
}

TEST_CASE("01: unknown flags and words") {
  check_bad_flags({"--no-such-flag", "3"}, {"--no-such-flag"});
  check_bad_flags({"--stepz=3"}, {"--stepz"});
  check_bad_flags({"train"}, {"train"});
  check_bad_flags({"--steps"}, {"--steps"});
  check_bad_flags({"--steps", "2", "--steps", "3"}, {"--steps"});
}

TEST_CASE("01: unknown presets, dtypes and devices") {
  check_bad_flags({"--model", "gpt5"}, {"--model", "gpt5", "nano", "gpt2-xl"});
  check_bad_flags({"--model", ""}, {"--model"});
  check_bad_flags({"--model", "nano", "--dtype", "fp8"}, {"--dtype", "fp8", "fp32", "fp64"});
  check_bad_flags({"--model", "nano", "--dtype", "fp16"}, {"--dtype fp16", "10_mixed_precision"});
  check_bad_flags({"--model", "nano", "--device", "tpu"}, {"--device", "tpu", "cpu"});
}

TEST_CASE("01: devices that this build or machine does not have name the ways out") {
  if (cuda_device_of_build() == DeviceType::emulator) {
    check_bad_flags({"--model", "nano", "--device", "cuda"},
                    {"--device cuda: this build has no CUDA", "--config=cuda", "--device cpu",
                     "--device emulator"});
    check_user_error(run_single_gpu({"--model", "nano", "--device", "emulator"},
                                    {.environment = {{"LADDER_EMULATOR_STREAMS", "late"}}}),
                     {"LADDER_EMULATOR_STREAMS=late", "immediate", "deferred"});
    check_user_error(run_single_gpu({"--model", "nano", "--device", "emulator"},
                                    {.environment = {{"LADDER_EMULATOR_ORDER", "any"}}}),
                     {"LADDER_EMULATOR_ORDER=any", "whole number"});
    check_user_error(run_single_gpu({"--model", "nano", "--device", "emulator"},
                                    {.environment = {{"LADDER_EMULATOR_DEVICE", "v100"}}}),
                     {"this build has code for sm_80", "compute capability 7.0"});
    return;
  }
  check_bad_flags({"--model", "nano", "--device", "emulator"},
                  {"--device emulator", "the default build", "cuda"});
  if (num_devices(DeviceType::cuda) > 0) return;
  check_bad_flags({"--model", "nano", "--device", "cuda"},
                  {"--device cuda: no usable GPU", "nvidia-smi", "--device cpu"});
}

TEST_CASE("01: numbers that are none") {
  const std::string flag =
      GENERATE("--layers", "--heads", "--hidden", "--vocab", "--sequence-length",
               "--global-batch-size", "--micro-batch-size", "--steps", "--seed", "--learning-rate",
               "--min-learning-rate", "--warmup-steps", "--weight-decay", "--beta1", "--beta2",
               "--epsilon", "--clip-norm", "--evaluate-every", "--evaluate-batches", "--sample",
               "--temperature", "--top-k", "--threads", "--peak-flops");
  for (const std::string value : {"-1", "nan", "inf", "-inf", "x", "", "3x"}) {
    check_bad_flags({"--model", "nano", flag + "=" + value}, {flag, value});
  }
}

TEST_CASE("01: sizes of memory that are none") {
  const std::string flag = GENERATE("--device-memory", "--host-memory");
  for (const std::string value : {"-1", "nan", "inf", "-inf", "x", "", "3x", "0", "1e18EiB"}) {
    check_bad_flags({"--model", "nano", flag + "=" + value}, {flag});
  }
}

TEST_CASE("01: absurd numbers") {
  const std::string flag = GENERATE(
      "--layers", "--heads", "--hidden", "--vocab", "--sequence-length", "--global-batch-size",
      "--micro-batch-size", "--steps", "--learning-rate", "--min-learning-rate", "--warmup-steps",
      "--weight-decay", "--beta1", "--beta2", "--epsilon", "--evaluate-every", "--evaluate-batches",
      "--sample", "--temperature", "--top-k", "--threads");
  for (const std::string value :
       {"1e18", "1000000000000000000", "99999999999999999999999999", "1e999"}) {
    check_bad_flags({"--model", "nano", flag, value}, {flag, value});
  }
}

TEST_CASE("01: numbers that C would read otherwise") {
  for (const std::string value : {"010", "0x10"}) {
    check_bad_flags({"--model", "nano", "--steps", value}, {"--steps", value});
    check_bad_flags({"--model", "nano", "--device-memory", value}, {"--device-memory", value});
  }
}

TEST_CASE("01: zero where there must be something") {
  const std::string flag = GENERATE(
      "--layers", "--heads", "--hidden", "--vocab", "--sequence-length", "--global-batch-size",
      "--micro-batch-size", "--learning-rate", "--epsilon", "--evaluate-batches", "--threads",
      "--device-memory", "--host-memory", "--peak-flops");
  check_bad_flags({"--model", "nano", flag, "0"}, {flag, "0"});
}

TEST_CASE("01: numbers that do not fit each other") {
  check_bad_flags({"--model", "nano", "--heads", "5"}, {"--heads 5", "--hidden 32"});
  check_bad_flags({"--model", "nano", "--hidden", "33"}, {"--heads 2", "--hidden 33"});
  check_bad_flags({"--model", "nano", "--micro-batch-size", "3"},
                  {"--micro-batch-size 3", "--global-batch-size 16"});
  check_bad_flags({"--model", "nano", "--global-batch-size", "8", "--micro-batch-size", "16"},
                  {"--micro-batch-size 16", "--global-batch-size 8"});
  check_bad_flags({"--model", "nano", "--learning-rate", "0.1", "--min-learning-rate", "0.2"},
                  {"--min-learning-rate 0.2", "--learning-rate 0.1"});
  check_bad_flags({"--model", "nano", "--steps", "5", "--warmup-steps", "6"},
                  {"--warmup-steps 6", "--steps 5"});
  check_bad_flags({"--model", "nano", "--beta1", "1"}, {"--beta1", "1"});
}

TEST_CASE("01: a file of flags is read as strictly as flags") {
  const Scratch inputs;
  const auto check_bad_file = [&](const std::string& text, const std::string& mention) {
    check_bad_flags({"--config", inputs.write("run.toml", text)}, {mention});
  };
  check_bad_file("no-such-flag = 3\n", "no such flag: no-such-flag");
  check_bad_file("model = \"nano\"\nsteps = -1\n", "-1");
  check_bad_file("model = \"gpt5\"\n", "gpt5");
  check_bad_file("model = \"nano\"\nsteps = 010\n", "--steps: '010'");
  check_bad_flags({"--config", inputs.path() / "missing.toml"}, {"missing.toml"});
  check_bad_flags({"--config", "/dev/zero"}, {"--config: /dev/zero", "a device"});
}

TEST_CASE("01: more than one rank, by the environment that mpirun sets") {
  const auto run_rank = [](const std::string& rank) {
    const Scratch folder;
    return run_single_gpu(
        {"--model", "nano", "--steps", "1"},
        {.folder = folder.path(),
         .environment = {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", rank}}});
  };
  check_user_error(run_rank("0"), {"01_single_gpu", "2", "02_ddp"});
  check_user_error(run_rank("1"),
                   {"01_single_gpu", "2", "02_ddp"});  // rank 0 may be another lesson
}

TEST_CASE("01: more than one rank, by mpirun") {
  const Scratch folder;
  const ProcessResult result =
      run_ranks(2, {lesson_path("01_single_gpu"), "--model", "nano", "--steps", "1"},
                {.folder = folder.path()});
  check_user_error(result, {"02_ddp"});
  CHECK(folder.files() == std::vector<std::string>{});
}

}  // namespace
}  // namespace ladder
