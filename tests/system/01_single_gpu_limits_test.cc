// Lesson 01 at its limits: memory that is not there, a disk that is full.
#include <filesystem>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/single_gpu.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

const Flags kRun = {"--model", "nano", "--steps", "1", "--threads", "1", "--evaluate-every", "0"};

// `batch_helps`: without activations it would fit.
void check_out_of_memory_report(const ProcessResult& result, bool batch_helps) {
  CAPTURE(result.out, result.err);
  CHECK_FALSE(result.timed_out);
  CHECK(result.status == 1);
  for (const std::string category :
       {"parameters", "gradients", "optimizer", "activations", "communication", "workspace"}) {
    CHECK_THAT(result.err, ContainsSubstring(category));
  }
  CHECK_THAT(result.err, ContainsSubstring("error: "));
  CHECK((result.err.find("--micro-batch-size") != std::string::npos) == batch_helps);
  CHECK_THAT(result.err, ContainsSubstring("--device-memory"));
}

TEST_CASE("01: over --device-memory") {
  const Scratch folder;
  const std::string limit = GENERATE("1", "64KiB", "1MiB");
  check_out_of_memory_report(
      run_single_gpu(kRun + Flags{"--device-memory", limit}, {.folder = folder.path()}),
      limit == "1MiB");  // 542 KiB of parameters, gradients and moments
}

TEST_CASE("01: GPT-2 in 512 MiB") {
  const Scratch folder;
  check_out_of_memory_report(
      run_single_gpu({"--model", "gpt2", "--device-memory", "512MiB"}, {.folder = folder.path()}),
      false);
}

TEST_CASE("01: sizes that no machine has are refused before they are used") {
  const Scratch folder;
  const ProcessResult result =
      run_single_gpu({"--model", "gpt2", "--layers", "10000", "--hidden", "1000000", "--heads", "1",
                      "--global-batch-size", "100000000"},
                     {.folder = folder.path()});
  CAPTURE(result.out, result.err);
  CHECK((result.status == 1 || result.status == 2));
  CHECK_THAT(result.err, ContainsSubstring("error: "));
}

TEST_CASE("01: a full disk leaves the earlier dump alone") {
  const Scratch folder;
  const Flags flags = kRun + Flags{"--dump", "dump"};
  REQUIRE(run_single_gpu(flags, {.folder = folder.path()}).status == 0);
  const fs::path dump = folder.path() / "dump/step_000001.safetensors";
  const std::string good = read_text(dump);

  // Room for the header alone, for a half, for all but the last byte.
  const size_t room = GENERATE_COPY(size_t{5000}, good.size() / 2, good.size() - 1);
  CAPTURE(room, good.size());
  const ProcessResult result = run_single_gpu(flags + Flags{"--seed", "2"},
                                              {.folder = folder.path(), .file_size_limit = room});
  CAPTURE(result.out, result.err);
  CHECK(result.status == 1);
  CHECK_THAT(result.err, StartsWith("error: ") && ContainsSubstring("step_000001"));
  CHECK(read_text(dump) == good);
  CHECK(folder.files() == std::vector<std::string>{"dump", "dump/step_000001.safetensors"});

  // The same run with room replaces it.
  REQUIRE(run_single_gpu(flags + Flags{"--seed", "2"},
                         {.folder = folder.path(), .file_size_limit = good.size()})
              .status == 0);
  CHECK(read_text(dump) != good);
}

TEST_CASE("01: a full disk leaves the earlier metrics alone") {
  const Scratch folder;
  const Flags flags = kRun + Flags{"--metrics", "metrics.jsonl"};
  REQUIRE(run_single_gpu(flags, {.folder = folder.path()}).status == 0);
  const std::string good = read_text(folder.path() / "metrics.jsonl");
  const ProcessResult result =
      run_single_gpu(flags, {.folder = folder.path(), .file_size_limit = 20});
  CAPTURE(result.out, result.err);
  CHECK(result.status == 1);
  CHECK_THAT(result.err, StartsWith("error: ") && ContainsSubstring("metrics.jsonl"));
  CHECK(read_text(folder.path() / "metrics.jsonl") == good);
  CHECK(folder.files() == std::vector<std::string>{"metrics.jsonl"});
}

}  // namespace
}  // namespace ladder
