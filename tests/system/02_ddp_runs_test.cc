// Lesson 02 as it should go: it computes what lesson 01 computes, and the same bits again.
#include <sstream>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/mpirun.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

using Json = nlohmann::ordered_json;

const Flags kNanoRun = {"--model", "nano", "--threads",        "1",
                        "--steps", "3",    "--evaluate-every", "0"};

ProcessResult run_nano(size_t num_ranks, const Scratch& folder, const Flags& flags) {
  const ProcessResult result = run_ranks(num_ranks, Flags{lesson_path("02_ddp")} + kNanoRun + flags,
                                         {.folder = folder.path()});
  CAPTURE(flags);
  require_success(result);
  return result;
}

// All three files of a dump.
std::string dump_bytes(const Scratch& folder, const std::string& name) {
  std::string bytes;
  for (int step = 1; step <= 3; ++step) {
    bytes += read_text(folder.path() / name / concat("step_00000", step, ".safetensors"));
  }
  return bytes;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE("02: ranks compute what one device computes") {
  const Scratch folder;
  const size_t num_ranks = GENERATE(2, 4);
  const Flags flags = {"--dtype", "fp64", "--global-batch-size", "8", "--dump"};
  require_success(run_single_gpu(kNanoRun + flags + Flags{"one"}, {.folder = folder.path()}));
  run_nano(num_ranks, folder, flags + Flags{"many"});
  run_nano(num_ranks, folder, flags + Flags{"accumulated", "--micro-batch-size", "1"});
  run_nano(num_ranks, folder, flags + Flags{"other", "--seed", "2"});
  const auto compare = [&](const std::string& other) {
    return run_process(
        {program_path("tools/state/comparison/comparison"), "one", other, "--tolerance", "1e-11"},
        {.folder = folder.path()});
  };
  // fp64 rounds at 1.1e-16; sums of some thousand terms and three steps leave it far below 1e-11,
  // the contract's bound between layouts.
  for (const std::string same : {"many", "accumulated"}) {
    const ProcessResult result = compare(same);
    CAPTURE(num_ranks, same, result.out, result.err);
    CHECK(result.status == 0);
  }
  CHECK(compare("other").status == 1);  // another run is told from them
}

TEST_CASE("02: without mpirun it is one rank, and lesson 01 to the bit") {
  const Scratch folder;
  const Flags flags = kNanoRun + Flags{"--micro-batch-size", "4", "--dump"};
  require_success(run_single_gpu(flags + Flags{"one"}, {.folder = folder.path()}));
  require_success(
      run_process(Flags{lesson_path("02_ddp")} + flags + Flags{"two"}, {.folder = folder.path()}));
  CHECK(dump_bytes(folder, "one") == dump_bytes(folder, "two"));
}

TEST_CASE("02: how gradients are sent changes no bit") {
  const Scratch folder;
  const Flags base = {"--micro-batch-size", "2", "--dump"};
  run_nano(4, folder, base + Flags{"base"});
  const std::string expected = dump_bytes(folder, "base");
  for (const Flags& flags : std::vector<Flags>{{},  // the same command twice
                                               {"--bucket-bytes", "1"},
                                               {"--bucket-bytes", "4KiB"},
                                               {"--bucket-bytes", "1GiB"},
                                               {"--no-overlap"},
                                               {"--naive"},
                                               {"--no-shared-memory"},
                                               {"--no-shared-memory", "--bucket-bytes", "4KiB"},
                                               {"--check-collectives"}}) {
    run_nano(4, folder, base + Flags{"again"} + flags);
    CAPTURE(flags);
    CHECK(dump_bytes(folder, "again") == expected);
  }
  run_nano(2, folder, base + Flags{"again"});  // other sums: the bytes can tell
  CHECK(dump_bytes(folder, "again") != expected);
}

// nano's gradients for 4 ranks. Every unit is padded to a multiple of 4 x 16 elements: embeddings
// of 256 and 32 rows of 32, two blocks of 12 x 32^2 + 13 x 32 = 12,704 elements, which become
// 12,736, and the final norm's 64.
constexpr size_t kGradientBytes = 4 * (256 * 32 + 32 * 32 + 2 * 12'736 + 64);

TEST_CASE("02: metrics count calls and bytes of every collective") {
  const Scratch folder;
  // Buckets are whole units: with 4 KiB the final norm goes with the last block.
  const auto [flags, calls] =
      GENERATE(values<std::pair<Flags, size_t>>({{Flags{}, 2},
                                                 {{"--bucket-bytes", "1"}, 5},
                                                 {{"--bucket-bytes", "4KiB"}, 4},
                                                 {{"--naive"}, 1}}));
  run_nano(4, folder, flags + Flags{"--metrics", "metrics"});
  std::istringstream lines(read_text(folder.path() / "metrics"));
  int64_t step = 0;
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(flags, line);
    const Json metrics = Json::parse(line);
    CHECK(metrics.at("step") == ++step);
    const Json& collectives = metrics.at("collectives");
    const Json& gradients = collectives.at("gradient.all_reduce");
    CHECK(gradients.at("calls") == calls);
    CHECK(gradients.at("payload_bytes") == kGradientBytes);
    CHECK(gradients.at("busy_ms") >= 0);
    CHECK(gradients.at("exposed_ms") >= 0);
    // The loss and the gradient norm, a double each.
    CHECK(collectives.at("control.all_reduce").at("calls") == 2);
    CHECK(collectives.at("control.all_reduce").at("payload_bytes") == 16);
    CHECK(collectives.size() == 2);
  }
  CHECK(step == 3);
}

TEST_CASE("02: rank 0 alone speaks") {
  const Scratch folder;
  const std::string out = run_nano(4, folder, {"--sample", "8"}).out;
  CAPTURE(out);
  for (const std::string once : {"02_ddp: ", "  ranks    4", "step 3/3", "peak memory, bytes",
                                 "communication, a step", "sample:"}) {
    CAPTURE(once);
    CHECK(count_of(out, once) == 1);
  }
  // 2 (N-1)/N of the gradients, predicted and measured.
  static_assert(2 * 3 * kGradientBytes / 4 == 208'512);
  CHECK(count_of(out, "208,512") == 2);
  CHECK(count_of(out, "differs") == 0);
}

TEST_CASE("02: a trace is of all ranks, and what it sends itself is not counted") {
  const Scratch folder;
  const std::string out =
      run_nano(3, folder, {"--trace", "trace.json", "--global-batch-size", "3"}).out;
  CAPTURE(out);
  for (const std::string row : {"control recv", "control send", "control barrier"}) {
    CHECK(count_of(out, row) == 0);
  }
  const std::string table = out.substr(out.find("communication, a step"));
  CHECK(count_of(table, "all_reduce") == 2);  // gradients; loss and norm
  CHECK(count_of(table, "all_gather") == 1);  // the comparison of the replicas
  const Json trace = Json::parse(read_text(folder.path() / "trace.json"));
  std::vector<int> reductions(3), updates(3);
  for (const Json& event : trace.at("traceEvents")) {
    const size_t rank = event.at("pid");
    reductions.at(rank) += event.at("name") == "gradient all_reduce";
    updates.at(rank) += event.at("name") == "update";
  }
  CHECK(reductions == std::vector<int>{6, 6, 6});  // two buckets in each of three steps
  CHECK(updates == std::vector<int>{3, 3, 3});     // of all units in each step
}

TEST_CASE("02: the header counts what sums of messages need") {
  const auto memory_line = [](const Flags& flags) {
    const ProcessResult result =
        run_ranks(2, Flags{lesson_path("02_ddp"), "--model", "nano", "--steps", "1", "--sample",
                           "0", "--evaluate-every", "0", "--threads", "1"} +
                         flags);
    require_success(result);
    const size_t begin = result.out.find("  memory ");
    return result.out.substr(begin, result.out.find('\n', begin) - begin);
  };
  CHECK_THAT(memory_line({}), !ContainsSubstring("communication"));
  CHECK_THAT(memory_line({"--no-shared-memory"}), ContainsSubstring("communication 4 MiB"));
}

TEST_CASE("02: --version comes once") {
  const ProcessResult result = run_ranks(2, {lesson_path("02_ddp"), "--version"});
  require_success(result);
  CHECK(count_of(result.out, "02_ddp\nrevision  ") == 1);
}

TEST_CASE("02: --help comes once, with the flags of this lesson") {
  const ProcessResult result = run_ranks(2, {lesson_path("02_ddp"), "--help"});
  require_success(result);
  for (const std::string flag :
       {"--bucket-bytes", "--no-overlap", "--naive", "--no-shared-memory", "--check-collectives",
        "--collective-timeout", "--communication"}) {
    CAPTURE(flag);
    CHECK(count_of(result.out, "  " + flag + " ") == 1);
  }
}

}  // namespace
}  // namespace ladder
