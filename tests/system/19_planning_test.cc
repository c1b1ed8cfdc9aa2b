// Lesson 19 as a user runs it, but for the build.
#include <algorithm>
#include <regex>
#include <sstream>

#include "common/io/text.h"
#include "tests/catch.h"
#include "tests/system/single_gpu.h"
#include "tools/programs/process.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

// On a machine with other work the seconds of a clock on the wall are few.
const Flags kMuchTime = {"--seconds", "1000"};

ProcessResult run_plan(const Flags& flags) {
  return run_process(Flags{lesson_path("19_planning")} + flags, {});
}

// The number that the pattern's group has in the text.
double number_in(const std::string& text, const std::string& pattern) {
  std::smatch match;
  INFO(pattern);
  REQUIRE(std::regex_search(text, match, std::regex(pattern)));
  return std::stod(match[1]);
}

// The command after "simulate: tools/run", with the lesson's program in place of its name.
Flags simulation_in(const std::string& out) {
  const std::string before = "simulate: tools/run ";
  const size_t begin = out.find(before) + before.size();
  std::istringstream words(out.substr(begin, out.find('\n', begin) - begin));
  Flags command;
  for (std::string word; words >> word;) command.push_back(word);
  command.front() = lesson_path(command.front());
  return command;
}

TEST_CASE("The printed command is what the lesson accepts, and takes the time that the plan says") {
  const auto flags =
      GENERATE(Flags{"--model", "gpt2", "--cluster", "h100", "--global-batch-size", "8"},
               Flags{"--model", "gpt2", "--cluster", "h100x8", "--global-batch-size", "64"},
               Flags{"--model", "gpt2-xl", "--cluster", "rtx3090x2", "--global-batch-size", "64"},
               Flags{"--model", "gpt2-xl", "--cluster", "v100x1x8", "--global-batch-size", "8"},
               Flags{"--model", "gpt2-medium", "--cluster", "rtx3060", "--global-batch-size", "2"},
               Flags{"--model", "gpt2-xl", "--cluster", "rtx3090", "--global-batch-size", "4"},
               Flags{"--model", "smollm2-135m", "--cluster", "h100", "--global-batch-size", "8"},
               Flags{"--cluster", "laptop", "--layers", "2", "--global-batch-size", "4"});
  const ProcessResult plan = run_plan(flags + kMuchTime + Flags{"--top", "1"});
  CAPTURE(flags, plan.out, plan.err);
  REQUIRE(plan.status == 0);
  CHECK(plan.err.empty());
  const ProcessResult step = run_process(simulation_in(plan.out), {});
  CAPTURE(step.out, step.err);
  REQUIRE(step.status == 0);
  const double planned = number_in(plan.out, R"(\n  1 .* (?:bf16|fp16|fp32) +([0-9.]+))");
  CHECK(planned == Approx(number_in(step.out, "simulated step ([0-9.]+) ms")).epsilon(0.01));
}

TEST_CASE("The reasons say what does not fit, and what would") {
  const ProcessResult plan = run_plan({"--model", "gpt2-xl", "--cluster", "rtx3090x2",
                                       "--global-batch-size", "64", "--tokens", "1e9"});
  CAPTURE(plan.out, plan.err);
  REQUIRE(plan.status == 0);
  CHECK_THAT(plan.out,
             ContainsSubstring("02_ddp") && ContainsSubstring("does not fit: needs at least") &&
                 ContainsSubstring("(optimizer ") && ContainsSubstring("on 2 ranks fits"));
  CHECK_THAT(plan.out, ContainsSubstring("1e+09 tokens") && ContainsSubstring("device-years"));
}

TEST_CASE("The settings by card are of the model's family, and every card has a plan") {
  const ProcessResult plan =
      run_plan({"--model", "llama-3.2-1b", "--sequence-length", "1024", "--cluster", "h100",
                "--top", "1", "--explain", "--seconds", "100"});
  CAPTURE(plan.out, plan.err);
  REQUIRE(plan.status == 0);
  CHECK_THAT(plan.out, ContainsSubstring("Out of memory?") && ContainsSubstring("One device."));
  // Its GPU has no bf16.
  CHECK(number_in(plan.out, R"(\n  v100 +1  llama-\S+ +fp16 .* ([0-9.]+)\n)") < 31.8);
  CHECK(number_in(plan.out, R"(\n  a100-80 +8  llama-3-8b +bf16 .* ([0-9.]+)\n)") < 80);
  CHECK_THAT(plan.out, !ContainsSubstring("no plan") && !ContainsSubstring("nothing fits") &&
                           !ContainsSubstring("gpt2"));
}

TEST_CASE("Where nothing fits, the planner says what comes closest") {
  const ProcessResult plan =
      run_plan({"--model", "gpt3-175b", "--cluster", "h100x2", "--global-batch-size", "2"});
  CHECK(plan.status == 1);
  CHECK_THAT(plan.err,
             ContainsSubstring("nothing fits. The smallest is") && ContainsSubstring("more ranks"));
  CHECK(std::count(plan.err.begin(), plan.err.end(), '\n') == 1);
  const ProcessResult none =
      run_plan({"--model", "gpt2", "--cluster", "h100x8", "--pipeline-parallel-sizes", "3"});
  CHECK(none.status == 1);
  CHECK_THAT(none.err, ContainsSubstring("no lesson can divide") &&
                           ContainsSubstring("--pipeline-parallel-sizes"));
}

TEST_CASE("With limits the cheapest number of devices is chosen, and its plan printed") {
  const Flags flags = {"--model", "gpt2",  "--cluster", "h100x4@eth-10g", "--global-batch-size",
                       "64",      "--top", "1",         "--tokens",       "1e10"};
  const auto chosen = [&](const Flags& limits) {
    const ProcessResult result = run_plan(flags + kMuchTime + limits);
    CAPTURE(result.out, result.err);
    REQUIRE(result.status == 0);
    const double devices = number_in(result.out, R"(choice: +([0-9]+) GPU)");
    CHECK_THAT(result.out,
               ContainsSubstring("simulate: tools/run") && ContainsSubstring("1e+10 tokens"));
    // Of the plan's own line.
    CHECK(number_in(result.out, R"(steps, ([0-9.]+) days)") ==
          Approx(number_in(result.out, R"(choice: .* ([0-9.]+) days)")).margin(0.06));
    return devices;
  };
  // One GPU needs no communication.
  CHECK(chosen({"--gpu-hours", "1000"}) == 1);
  const ProcessResult late = run_plan(flags + kMuchTime + Flags{"--days", "0.001"});
  CHECK(late.status == 1);
  const double days = number_in(late.err, R"(; ([0-9.]+) days would do \(4 GPUs)");
  CHECK(chosen({"--days", std::to_string(days)}) == 4);
}

TEST_CASE("The README shows what the worked example prints") {
  const std::string readme = read_text(program_path("lessons/19_planning/README.md"));
  const Flags offers = {"--measured",  "4:oom,8:12:1e6,16:6.3:1e6,32:3.5:1e6,64:2.2:1e6",
                        "--tokens",    "1e11",
                        "--gpu-hours", "3500"};
  CHECK_THAT(readme, ContainsSubstring("--measured " + offers[1] + " --tokens 1e11 --days 7"));
  const ProcessResult chosen = run_plan(offers + Flags{"--days", "7"});
  CHECK(chosen.status == 0);
  CHECK_THAT(readme, ContainsSubstring("\n```" + chosen.out + "```\n"));
  const ProcessResult none = run_plan(offers + Flags{"--days", "4"});
  CHECK(none.status == 1);
  CHECK_THAT(readme, ContainsSubstring("\n```\n" + none.err + "```\n"));
}

TEST_CASE("The README shows what the request for eight RTX 3090 prints") {
  const std::string readme = read_text(program_path("lessons/19_planning/README.md"));
  const std::string request =
      "--model gpt2-xl --cluster rtx3090x8 --tokens 1e10\n--days 6 --gpu-hours 700";
  const size_t begin = readme.find(request);
  REQUIRE(begin != std::string::npos);
  const ProcessResult plan =
      run_plan(kMuchTime + Flags{"--model", "gpt2-xl", "--cluster", "rtx3090x8", "--tokens", "1e10",
                                 "--days", "6", "--gpu-hours", "700"});
  REQUIRE(plan.status == 0);
  std::string shown;  // the two blocks that follow
  for (size_t block = 0, at = begin; block < 2; ++block) {
    const size_t open = readme.find("```\n", at) + 4, close = readme.find("```", open);
    shown += readme.substr(open, close - open);
    at = close + 3;
  }
  std::istringstream lines(shown);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);  // "..." stands for lines that are left out
    CHECK((line == "..." || plan.out.find(line) != std::string::npos));
  }
}

TEST_CASE("The pages say how many layouts the planner knows") {
  const auto layouts_of = [](const Flags& request) {
    const std::string out = run_plan(Flags{"--seconds", "0.001"} + request).out;
    return with_commas(static_cast<uint64_t>(number_in(out, "of (\\d+) layouts simulated")));
  };
  const std::string story = read_text(program_path("lessons/19_planning/README.md"));
  const std::string large = layouts_of({"--model", "70b", "--cluster", "h100x8x8"});
  CHECK_THAT(story, ContainsSubstring("knows " + large + " of them"));
  CHECK_THAT(story, ContainsSubstring("of the " + large + " layouts"));
  const std::string gpt3 = layouts_of(
      {"--model", "gpt3-175b", "--cluster", "a100-80x8x64", "--global-batch-size", "1536"});
  CHECK_THAT(story, ContainsSubstring("there are " + gpt3 + " layouts"));
}

TEST_CASE("Bad input is refused in one line") {
  const auto check_line = [](const Flags& flags, const std::string& mention) {
    const ProcessResult result = run_plan(flags);
    CAPTURE(flags, result.out, result.err);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, ContainsSubstring(mention));
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  };
  check_line({}, "--cluster");
  check_line({"--cluster", "h999"}, "h999");
  check_line({"--cluster", "h100x8", "--model", "gpt9"}, "gpt9");
  check_line({"--cluster", "h100x8", "--ranks", "9"}, "9");
  check_line({"--cluster", "h100x8", "--heads", "3"}, "3");
  check_line({"--cluster", "h100x8", "--hidden", "x"}, "x");
  check_line({"--cluster", "v100x8", "--dtype", "bf16"}, "bf16");
  check_line({"--cluster", "h100x8", "--lessons", "02,07"}, "07: expected 01, 02");
  check_line({"--cluster", "h100x8", "--recompute", "none,whole"}, "whole");
  check_line({"--cluster", "h100x8", "--zero-stages", "0,4"}, "4");
  check_line({"--cluster", "h100x8", "--pipeline-parallel-sizes", "2,0"}, "0");
  check_line({"--cluster", "h100x8", "--tensor-parallel-sizes", "two"}, "two");
  check_line({"--cluster", "h100x8", "--no-overlap", "pipeline"}, "pipeline");
  check_line({"--cluster", "h100x8", "--no-overlap", "data", "--lessons", "03"}, "--no-overlap");
  check_line({"--cluster", "h100x8", "--tokens", "0"}, "--tokens");
  check_line({"--cluster", "h100x8", "--top", "0"}, "--top");
  check_line({"--cluster", "h100x8", "--days", "3"}, "--tokens");
  check_line({"--cluster", "h100x8", "--tokens", "1", "--days", "0"}, "--days");
  check_line({"--cluster", "h100x8", "--tokens", "1", "--gpu-hours", "-1"}, "--gpu-hours");
  check_line({"--cluster", ""}, "--cluster: its value is empty");
  check_line({"--cluster", "h100", "--program", ""}, "--program: its value is empty");
  check_line({"--cluster", "h100", "--keep-free", "1.5"}, "--keep-free");
  check_line({"--measured", "8:1.5:1000"}, "--tokens");
  check_line({"--measured", "8:1.5", "--tokens", "1"}, "8:1.5");
  check_line({"--measured", "8:1:1e-300", "--tokens", "1e11"}, "8:1:1e-300");
  check_line({"--measured", "8:1:1", "--tokens", "1", "--cluster", "h100"}, "--measured");
}

}  // namespace
}  // namespace ladder
