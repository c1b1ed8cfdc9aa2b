// Lessons on the virtual device, as a user runs them: a cluster that is not there.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>
#include <sstream>

#include "tests/catch.h"
#include "tests/common/train/perfetto.h"
#include "tests/system/mpirun.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

ProcessResult run_virtual(const std::string& lesson, const Flags& flags) {
  return run_process(Flags{lesson_path(lesson), "--device", "virtual"} + flags, {});
}

struct Case {
  std::string lesson;
  Flags flags;
};

TEST_CASE("Every lesson takes its steps on a virtual cluster, with the memory that is predicted") {
  const auto one = GENERATE(
      Case{"01_single_gpu", {"--cluster", "h100"}}, Case{"01_single_gpu", {"--cluster", "laptop"}},
      Case{"02_ddp", {"--cluster", "h100x8"}}, Case{"03_zero1", {"--cluster", "a100-80x4x2"}},
      Case{"04_zero2", {"--cluster", "a100-40x8"}}, Case{"05_zero3", {"--cluster", "h100x8"}},
      Case{"06_offload", {"--cluster", "rtx3090x2", "--offload", "optimizer"}},
      Case{"07_tensor_parallel", {"--cluster", "h100x4"}},
      Case{"08_pipeline_parallel", {"--cluster", "h100x4"}},
      Case{"09_3d_parallel",
           {"--cluster", "h100x8", "--tensor-parallel-size", "2", "--pipeline-parallel-size", "2",
            "--zero-stage", "1"}},
      Case{"10_mixed_precision", {"--cluster", "h100x8", "--dtype", "bf16"}},
      Case{"12_gradient_compression", {"--cluster", "h100x8"}},
      Case{"13_sequence_parallel", {"--cluster", "h100x4"}},
      Case{"14_context_parallel", {"--cluster", "h100x4"}},
      Case{"15_expert_parallel", {"--cluster", "h100x4", "--expert-parallel-size", "2"}},
      Case{"15_expert_parallel", {"--cluster", "laptop", "--ranks", "2", "--top-k", "2"}},
      Case{"16_pipeline_schedules", {"--cluster", "h100x4", "--schedule", "zb-h1"}});
  const ProcessResult result = run_virtual(one.lesson, one.flags);
  CAPTURE(one.lesson, result.out, result.err);
  REQUIRE(result.status == 0);
  CHECK(result.err.empty());
  CHECK_THAT(result.out, ContainsSubstring("simulated step") && ContainsSubstring("no value"));
  CHECK_THAT(result.out, !ContainsSubstring("differs"));
  CHECK(run_virtual(one.lesson, one.flags).out == result.out);
}

TEST_CASE("A model that does not fit ends with the table of what is needed") {
  const ProcessResult result =
      run_virtual("02_ddp", {"--cluster", "rtx3090x2", "--model", "gpt2-xl"});
  CHECK(result.status == 1);
  CHECK_THAT(result.err,
             ContainsSubstring("rank 0: out of device memory") && ContainsSubstring("no room"));
}

// A row of the table "by operation (mean of ranks)": milliseconds and calls.
struct Row {
  double ms = 0, calls = 0;
};

std::map<std::string, Row> operations_of(const std::string& out) {
  std::map<std::string, Row> rows;
  const std::regex row(R"(  (\S.{33}) +([0-9.]+) +[0-9.]+ +[0-9.]+ +([0-9.]+))");
  std::istringstream lines(out.substr(out.find("by operation")));
  std::smatch found;
  for (std::string line; std::getline(lines, line);) {
    if (!std::regex_match(line, found, row)) continue;
    const std::string name = found[1];
    rows[name.substr(0, name.find_last_not_of(' ') + 1)] = {std::stod(found[2]),
                                                            std::stod(found[3])};
  }
  return rows;
}

TEST_CASE("A trace has the units, kernels and messages of all ranks, and tables add them up") {
  const Scratch folder;
  const auto& [lesson, flags] =
      GENERATE(Case{"02_ddp", {"--cluster", "h100x2"}},
               Case{"08_pipeline_parallel",  // the first stage ends last
                    {"--cluster", "h100x4", "--layers", "6", "--stage-layers", "4,1,1,0",
                     "--hidden", "1024"}},
               Case{"06_offload",
                    {"--cluster", "rtx3090x2", "--offload", "optimizer", "--zero-stage", "3"}});
  const ProcessResult result = run_process(
      Flags{lesson_path(lesson), "--device", "virtual", "--trace", "t.json", "--breakdown"} + flags,
      {.folder = folder.path()});
  CAPTURE(lesson, result.out, result.err);
  REQUIRE(result.status == 0);
  CHECK_THAT(result.out,
             ContainsSubstring("attention_backward") && ContainsSubstring("h.* backward"));
  const auto events = nlohmann::json::parse(read_text(folder.path() / "t.json")).at("traceEvents");
  CHECK(testing::perfetto_faults(events) == std::vector<std::string>());
  std::map<std::string, Row> recorded;
  double begin = 1e30, end = 0;
  std::set<size_t> ranks;
  for (const auto& event : events) {
    if (event.at("ph") != "X") continue;
    const double from = event.at("ts"), length = event.at("dur");
    Row& row = recorded[event.at("name")];
    row.ms += 1e-3 * length;
    row.calls += 1;
    begin = std::min(begin, from);
    end = std::max(end, from + length);
    ranks.insert(event.at("pid").get<size_t>());
  }
  const auto num_ranks = static_cast<double>(ranks.size());
  CHECK(num_ranks == (lesson == "08_pipeline_parallel" ? 4 : 2));
  for (const char* unit : {"h.0 backward", "adamw"}) CHECK(recorded.contains(unit));
  const std::map<std::string, Row> operations = operations_of(result.out);
  CHECK(operations.size() > 10);
  for (const auto& [name, row] : operations) {
    CAPTURE(name);
    // Three digits and one are printed; a span loses less than two nanoseconds.
    CHECK(std::abs(row.ms - recorded[name].ms / num_ranks) <= 0.0005 + 2e-6 * row.calls);
    CHECK(std::abs(row.calls - recorded[name].calls / num_ranks) < 0.051);
  }
  const std::regex said(R"(simulated step ([0-9.]+) ms, ([0-9,]+) tokens/s)");
  const std::regex batch(R"(([0-9,]+) tokens a step)");
  std::smatch step, tokens;
  REQUIRE(std::regex_search(result.out, step, said));
  REQUIRE(std::regex_search(result.out, tokens, batch));
  const auto number = [](std::string text) {
    std::erase(text, ',');
    return std::stod(text);
  };
  CHECK(number(step[1]) >= 1e-3 * (end - begin) - 0.0005);
  CHECK(number(step[2]) * number(step[1]) == Approx(1e3 * number(tokens[1])).epsilon(1e-3));
}

TEST_CASE("--draw shows the simulated step: all of few ranks, or one in each stage of many") {
  const Scratch folder;
  const auto drawing = [&](const std::string& lesson, const Flags& flags) {
    const std::filesystem::path path = folder.path() / "step.svg";
    const ProcessResult result = run_virtual(lesson, flags + Flags{"--draw", path.string()});
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    return read_text(path);
  };
  const std::string two = drawing("02_ddp", {"--cluster", "h100x2"});
  CHECK_THAT(two, ContainsSubstring("Step 1 on 2 ranks") && ContainsSubstring(">all ranks<"));
  // A trace has kernels, too. The update is one of them and a unit of its own.
  const std::string trace = folder.path() / "t.json";
  CHECK_THAT(drawing("02_ddp", {"--cluster", "h100x2", "--trace", trace}),
             ContainsSubstring("Step 1 on 2 ranks") && ContainsSubstring(">update<"));
  // The host's updates are no units, but end the step.
  CHECK_THAT(drawing("06_offload", {"--cluster", "rtx3090x2", "--offload", "optimizer"}),
             ContainsSubstring("Step 1 on 2 ranks") && ContainsSubstring(">update<"));
  const std::string many =
      drawing("09_3d_parallel", {"--cluster", "h100x8x4", "--tensor-parallel-size", "4",
                                 "--pipeline-parallel-size", "2", "--global-batch-size", "16"});
  CHECK_THAT(many, ContainsSubstring("Step 1 on 2 ranks") && ContainsSubstring("rank 16 computes"));
  CHECK_THAT(many, ContainsSubstring(">tensor group<") && ContainsSubstring(">pipeline<"));
}

TEST_CASE("--no-overlap of lesson 09: no communication is hidden") {
  const Flags grid = {"--cluster", "a100-80x8", "--tensor-parallel-size", "2", "--dtype", "bf16",
                      "--model",   "gpt2",      "--global-batch-size",    "8"};
  // The last number of each line of gradients and activations is the hidden milliseconds.
  const auto hidden = [&](const Flags& more) {
    const ProcessResult result = run_virtual("09_3d_parallel", grid + more);
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    const std::regex line("(data gradient|tensor activation).*by formula +[0-9.]+ +([0-9.]+)");
    double sum = 0;
    size_t num_lines = 0;
    for (std::sregex_iterator at(result.out.begin(), result.out.end(), line), end; at != end;
         ++at, ++num_lines) {
      sum += std::stod((*at)[2]);
    }
    CHECK(num_lines > 1);
    return sum;
  };
  for (const Flags& more : {Flags{}, Flags{"--sequence-parallel"}, Flags{"--zero-stage", "1"}}) {
    CHECK(hidden(more) > 0.1);
    CHECK(hidden(more + Flags{"--no-overlap", "data,tensor"}) == 0);
  }
}

double milliseconds_in(const std::string& out, const std::string& before) {
  std::smatch found;
  INFO(out);
  REQUIRE(std::regex_search(out, found, std::regex(before + " ([0-9.]+) ms")));
  return std::stod(found[1]);
}

TEST_CASE("The step at half and twice the network is what a run there says") {
  const auto& [lesson, flags] = GENERATE(
      Case{"05_zero3", {"--model", "gpt2", "--dtype", "bf16"}},
      Case{"09_3d_parallel", {"--pipeline-parallel-size", "2", "--tensor-parallel-size", "2"}});
  const auto out_on = [&](const Flags& more) {
    const ProcessResult result = run_virtual(lesson, flags + more);
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    return result.out;
  };
  const std::string fixed = "--fixed-network", step = "simulated step";
  const std::string known = out_on({"--cluster", "h100x2x4@ib-400g"});
  CHECK(milliseconds_in(known, "at half the network's rate") ==
        milliseconds_in(out_on({"--cluster", "h100x2x4@ib-200g", fixed}), step));
  CHECK(milliseconds_in(known, "at twice") ==
        milliseconds_in(out_on({"--cluster", "h100x2x4@ib-800g", fixed}), step));
  const std::string alone = out_on({"--cluster", "h100x2x4@ib-400g", fixed});
  CHECK(milliseconds_in(alone, step) == milliseconds_in(known, step));
  CHECK_THAT(alone, !ContainsSubstring("at half"));
  const std::string node = out_on({"--cluster", "h100x4"});
  CHECK(milliseconds_in(node, "at half the node link's rate") > milliseconds_in(node, step));
  CHECK(milliseconds_in(node, "at twice") < milliseconds_in(node, step));
}

TEST_CASE("The header names what is assumed, until it is given") {
  const auto header_of = [](const std::string& lesson, const Flags& flags) {
    const std::string out = run_virtual(lesson, flags + Flags{"--fixed-network"}).out;
    return out.substr(0, out.find("simulated step"));
  };
  const Flags two_nodes = {"--cluster", "a100-80x2x2", "--dtype", "bf16"};
  CHECK_THAT(header_of("10_mixed_precision", two_nodes),
             ContainsSubstring("assumed  network ib-8x200g") &&
                 ContainsSubstring("assumed  program: the lessons' kernels") &&
                 ContainsSubstring("assumed  of the peak: products 0.893") &&
                 ContainsSubstring("assumed  gradients are summed in fp32"));
  CHECK_THAT(header_of("10_mixed_precision", two_nodes + Flags{"--reduce-dtype", "bf16"}),
             !ContainsSubstring("are summed in"));
  CHECK_THAT(header_of("10_mixed_precision", two_nodes + Flags{"--program", "vtrain"}),
             !ContainsSubstring("the lessons' kernels") && ContainsSubstring("--program FILE"));
  CHECK_THAT(header_of("02_ddp", two_nodes), ContainsSubstring("lesson 10's --reduce-dtype"));
  CHECK_THAT(header_of("01_single_gpu", {"--cluster", "h100"}),
             !ContainsSubstring("are summed in"));
}

TEST_CASE("--cluster list and --program list print what is known, whatever else is given") {
  for (const std::string lesson : {"01_single_gpu", "05_zero3"}) {
    for (const Flags& flags : {Flags{"--cluster", "list"}, Flags{"--program", "list"}}) {
      const ProcessResult result = run_process(Flags{lesson_path(lesson)} + flags, {});
      CHECK((result.status == 0 && result.err.empty()));
      CHECK_THAT(result.out, ContainsSubstring("--cluster DEVICE") ||
                                 ContainsSubstring("\n  megatron-2022 (a100-40, a100-80): "));
    }
  }
}

TEST_CASE(
    "With any number a cluster or a program is refused in one line, or gives finite numbers") {
  std::mt19937 random(64);
  const auto below = [&](size_t most) { return random() % most; };
  const std::vector<std::string> keys = {
      "fp32_product_flops", "product_efficiency",   "attention_forward_efficiency",
      "vector_flops",       "memory_bandwidth",     "attention_backward_efficiency",
      "memory_efficiency",  "launch_seconds",       "least_kernel_seconds",
      "call_seconds",       "node_link_bandwidth",  "node_link_efficiency",
      "node_link_latency",  "network_efficiency",   "network_latency",
      "node_compute_share", "network_compute_share"};
  const auto number = [&] { return concat("1e", static_cast<int>(below(46)) - 16); };
  const Scratch folder;
  const std::string cluster = folder.path() / "c.json", program = folder.path() / "p.json";
  size_t num_refused = 0, num_run = 0;
  for (size_t round = 0; round < 60; ++round) {
    std::string text = R"({"like": "h100", "devices_per_node": 2, "nodes": 2)";
    std::set<std::string> drawn;
    for (size_t i = 0; i <= below(2); ++i) drawn.insert(keys[below(keys.size())]);
    for (const std::string& key : drawn) text += concat(", \"", key, "\": ", number());
    std::ofstream(cluster) << text << "}";
    std::ofstream(program) << R"({"about": "p", "instead_of": {"matmul": {"more_bytes": )"
                           << (round % 6 == 0 ? number() : "1") << R"(, "launches": )"
                           << (round % 6 == 1 ? number() : "2") << "}}}";
    const ProcessResult result =
        run_virtual("02_ddp", {"--cluster", cluster, "--program", program, "--layers", "1"});
    CAPTURE(text, read_text(program), result.out, result.err);
    if (result.status == 0) {
      ++num_run;
      CHECK(result.err.empty());
      CHECK_FALSE(std::regex_search(result.out, std::regex(R"(\b(nan|inf)\b)")));
      continue;
    }
    ++num_refused;
    CHECK(result.status == 2);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  }
  CHECK(num_refused > 20);
  CHECK(num_run > 10);
}

TEST_CASE("What cannot be simulated is refused in one line") {
  const auto check_line = [](const Flags& flags, const std::string& mention) {
    const ProcessResult result = run_virtual("02_ddp", flags);
    CAPTURE(flags, result.out, result.err);
    CHECK(result.status == 2);
    CHECK_THAT(result.err, ContainsSubstring(mention));
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  };
  const Flags cluster = {"--cluster", "h100x8"};
  check_line({}, "--cluster");
  check_line({"--cluster", "h999"}, "h999");
  check_line({"--cluster", ""}, "--cluster: its value is empty");
  check_line({"--cluster", "h100x8", "--program", ""}, "--program: its value is empty");
  check_line(cluster + Flags{"--ranks", "9"}, "9");
  check_line(cluster + Flags{"--ranks", "0"}, "--ranks");
  check_line(cluster + Flags{"--global-batch-size", "3"}, "--global-batch-size 3");
  for (const std::string flag : {"--dump", "--checkpoint", "--metrics", "--tensorboard"}) {
    check_line(cluster + Flags{flag, "x"}, flag);
  }
  check_line(cluster + Flags{"--sample", "5"}, "--sample");
  check_line({"--cluster", "v100x8", "--dtype", "bf16"},
             "--dtype bf16: NVIDIA V100 SXM2 32 GB has fp32, fp64 and fp16");
  check_line(cluster + Flags{"--draw", "no/such/folder/x.svg"}, "--draw no/such/folder/x.svg");
  check_line(cluster + Flags{"--draw", "x", "--trace", "./x"}, "--draw x and --trace ./x");
  check_line(cluster + Flags{"--draw", "x.csv"}, "--draw x.csv: with --device virtual");
}

TEST_CASE("Flags of the virtual device are refused on a real one") {
  const ProcessResult result =
      run_process({lesson_path("02_ddp"), "--cluster", "h100x8", "--steps", "1"}, {});
  CHECK(result.status == 2);
  CHECK_THAT(result.err, ContainsSubstring("--cluster: needs --device virtual"));
  for (const std::string flag : {"--cluster", "--program"}) {  // an unset variable of a shell
    CHECK(run_process({lesson_path("02_ddp"), flag, "", "--steps", "1"}, {}).status == 2);
  }
  const ProcessResult drawn = run_process({lesson_path("02_ddp"), "--draw", "x.svg"}, {});
  CHECK(drawn.status == 2);
  CHECK_THAT(drawn.err, ContainsSubstring("--draw: 02_ddp has no schedule"));
}

}  // namespace
}  // namespace ladder
