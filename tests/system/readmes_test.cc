// What the READMEs of the trainers say that a run prints, compared with what it prints: memory,
// bytes, the cut of the model, the first loss. Times are not compared.
#include <algorithm>
#include <optional>
#include <regex>
#include <sstream>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/mpirun.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

// `tools/run 02_ddp -n 4 --steps 20` prints ..., and the block of output after it.
struct Example {
  size_t num_ranks = 0;  // 0: without -n
  Flags flags;
  std::vector<std::string> lines;
};

Example example_of(const std::string& readme) {
  static const std::regex kCommand(R"(\n## Run it\n+`tools/run ([^`]+)`\s+prints)");
  std::smatch match;
  if (!std::regex_search(readme, match, kCommand)) fail("no `tools/run ...` prints in Run it");
  std::string command = match[1];
  std::ranges::replace(command, '\n', ' ');
  Example example;
  example.flags = split(command, ' ');
  example.flags.erase(example.flags.begin());  // the lesson's name
  if (!example.flags.empty() && example.flags[0] == "-n") {
    example.num_ranks = std::stoul(example.flags.at(1));
    example.flags.erase(example.flags.begin(), example.flags.begin() + 2);
  }
  const size_t begin = readme.find("\n```\n", static_cast<size_t>(match.position())) + 5;
  example.lines = split(readme.substr(begin, readme.find("\n```", begin) - begin), '\n');
  return example;
}

// Long runs are cut short: one step, evaluated on one batch. Steps of nano are short ones.
bool is_cut_short(Flags& flags) {
  const auto steps = std::ranges::find(flags, "--steps");
  const bool is_nano = std::ranges::count(flags, "nano") > 0;
  if (steps != flags.end() && (is_nano || std::stoul(*(steps + 1)) <= 3)) return false;
  if (steps != flags.end()) flags.erase(steps, steps + 2);
  flags = flags + Flags{"--steps", "1", "--evaluate-batches", "1"};
  return true;
}

// What a line says that is the same in every run on every machine; nothing where that is nothing.
// Of losses and norms it is those of the first step: later ones differ more between CPUs, as oneDNN
// has other products for other CPUs. The first ones are 5.530524 and 6.035735. Other sums in fp32
// change them by some 1e-6, and 2.6e-5 would be needed to print another digit. (Lesson 10's is
// fp16, whose products are our own: the same everywhere.)
std::optional<std::string> exact_part(const std::string& line, bool cut_short) {
  static const std::regex kFirstStep(R"(^step +1/\d+  (loss .*?)  [0-9,]+ tokens/s.*)"),
      kTimes(R"( +\d+\.\d\d +\d+\.\d\d( .*)?$)"), kStep("^step "), kNan("-nan"),
      kOther(R"(of the wall time|measured here|share the cores|--times )");
  std::smatch match;
  if (std::regex_match(line, match, kFirstStep))
    return std::regex_replace(match.str(1), kNan, "nan");
  if (line == "..." || std::regex_search(line, kStep) || std::regex_search(line, kOther)) return {};
  if (cut_short && line.starts_with("  control ")) return {};  // evaluations, divided by the steps
  return std::regex_replace(line, kTimes, "$1");
}

// The README's lines that the program did not print. A line that ends with "..." is a beginning.
std::vector<std::string> not_printed(const std::vector<std::string>& said, const std::string& out,
                                     bool cut_short) {
  std::vector<std::string> printed, missing;
  for (const std::string& line : split(out, '\n')) {
    if (const auto part = exact_part(line, cut_short)) printed.push_back(*part);
  }
  for (const std::string& line : said) {
    std::optional<std::string> part = exact_part(line, cut_short);
    if (!part) continue;
    const bool is_beginning = part->ends_with(" ...");
    if (is_beginning) part->resize(part->size() - 4);
    const bool found = std::ranges::any_of(printed, [&](const std::string& other) {
      return is_beginning ? other.starts_with(*part) : other == *part;
    });
    if (!found) missing.push_back(line);
  }
  return missing;
}

// Starts it as tools/run does. Lesson 17 starts its ranks itself.
ProcessResult run_example(const std::string& lesson, size_t num_ranks, const Flags& argv,
                          const Scratch& folder) {
  const ProcessOptions options = {.folder = folder.path(), .environment = {{"TMPDIR", "/tmp"}}};
  if (lesson == "17_elastic") {
    const Flags supervisor = {"--mpirun", mpirun_command()[0], "--ranks", concat(num_ranks)};
    return run_process(argv + supervisor, options);
  }
  return num_ranks == 0 ? run_process(argv, options) : run_ranks(num_ranks, argv, options);
}

TEST_CASE("a lesson prints what its README says, but for times") {
  const std::string lesson =
      GENERATE("01_single_gpu", "02_ddp", "03_zero1", "04_zero2", "05_zero3", "06_offload",
               "07_tensor_parallel", "08_pipeline_parallel", "09_3d_parallel", "10_mixed_precision",
               "11_activation_checkpointing", "12_gradient_compression", "13_sequence_parallel",
               "14_context_parallel", "15_expert_parallel", "16_pipeline_schedules", "17_elastic",
               "18_fine_tuning", "20_muon", "21_hybrid_shard");
  CAPTURE(lesson);
  Example example = example_of(read_text(program_path("lessons/" + lesson + "/README.md")));
  const bool cut_short = is_cut_short(example.flags);
  const Scratch folder;
  const Flags argv = Flags{lesson_path(lesson)} + example.flags + Flags{"--sample", "0"};
  const ProcessResult result = run_example(lesson, example.num_ranks, argv, folder);
  require_success(result);
  CAPTURE(result.out);
  CHECK(not_printed(example.lines, result.out, cut_short) == std::vector<std::string>{});
  const auto num_compared = std::ranges::count_if(
      example.lines, [&](const auto& line) { return exact_part(line, cut_short).has_value(); });
  CHECK(num_compared >= (lesson == "10_mixed_precision" ? 1 : 4));
}

TEST_CASE("the comparison with a README finds each line that a program does not print") {
  const std::string out =
      "  memory   1 MiB predicted: parameters 2, gradients 3\n\n"
      "step 1/1  loss 5.5305  grad norm -nan  10 tokens/s  0:00 left\n"
      "step 1  validation loss 5\n"
      "  device gradients      10      10\n"
      "  gradient all_reduce   20      20       1.25      11.00\n"
      "  gradient send         20      21       1.25      11.00  differs\n";
  const auto missing = [&](const std::string& line) {
    return !not_printed({line}, out, false).empty();
  };
  CHECK_FALSE(missing("  memory   1 MiB predicted: parameters 2, ..."));
  CHECK(missing("  memory   1 MiB predicted: parameters 4, ..."));
  CHECK(missing("  memory   1 MiB predicted: parameters 2,"));
  CHECK_FALSE(missing("step   1/200  loss 5.5305  grad norm nan  99 tokens/s  1:00 left"));
  CHECK(missing("step   1/200  loss 5.5306  grad norm nan  99 tokens/s  1:00 left"));
  CHECK(missing("step   1/200  loss 5.5305  grad norm 1.0  99 tokens/s  1:00 left"));
  CHECK_FALSE(missing("step   2/200  loss 3  grad norm 1  99 tokens/s  1:00 left"));
  CHECK_FALSE(missing("  device gradients      10      10"));
  CHECK(missing("  device gradients      10      11"));
  CHECK_FALSE(missing("  gradient all_reduce   20      20      99.25       9.00"));
  CHECK(missing("  gradient all_reduce   20      21       1.25      11.00"));
  CHECK(missing("  gradient send         20      21       1.25      11.00"));  // "differs"
  CHECK_FALSE(missing("..."));
}

// A command of a story, and numbers that the story takes from what it prints: as they are printed,
// and as they are said.
struct Taken {
  std::string story, lesson, command;  // -n 5 first, if ranks are started
  std::vector<std::pair<std::string, std::string>> numbers;
};

const std::string kTwo = "--device virtual --cluster h100x8 --ranks 2 --model gpt2-xl ";
const std::string kMuon =
    "--device virtual --cluster h100x8x8 --model gpt2 --micro-batch-size 16 --ranks 8 "
    "--global-batch-size 128 --steps 1 ";
const std::string kTune =
    "--device virtual --cluster h100 --model gpt2 --global-batch-size 1 --steps 1 --train ";
const std::vector<Taken> kTaken = {
    {"01_single_gpu",
     "01_single_gpu",
     "--model gpt2 --micro-batch-size 1 --device-memory 512MiB",
     {{"optimizer 949.40 MiB", "949.40 MiB"}, {"activations 582.76 MiB", "582.76 MiB"}}},
    {"07_tensor_parallel",
     "01_single_gpu",
     "--model gpt2-xl --global-batch-size 1 --device-memory 512MiB",
     {{"28.00 GiB predicted", "28.00 GiB"}, {"activations 4.71 GiB", "4.71 GiB"}}},
    {"07_tensor_parallel",
     "07_tensor_parallel",
     "-n 5 --model gpt2-xl --global-batch-size 1 --device-memory 512MiB",
     {{"6.58 GiB predicted", "6.58 GiB"}}},
    {"03_zero1",
     "03_zero1",
     "-n 4 --model gpt2 --device-memory 512MiB",
     {{"parameters 474.70 MiB", "474.70 MiB"}, {"optimizer 237.35 MiB", "237.35 MiB"}}},
    {"08_pipeline_parallel",
     "07_tensor_parallel",
     kTwo + "--micro-batch-size 1 --global-batch-size 1 --steps 1 --heads 20",
     {{"1,271,410,688", "1.27 GB"}}},
    {"08_pipeline_parallel",
     "07_tensor_parallel",
     kTwo + "--micro-batch-size 1 --global-batch-size 64 --steps 1 --heads 20",
     {{"81,370,284,032", "81 GB"}}},
    {"08_pipeline_parallel",
     "08_pipeline_parallel",
     kTwo + "--micro-batch-size 1 --global-batch-size 1 --steps 1",
     {{"321,644,800", "322 MB"}, {"6,553,600", "6.6 MB"}}},
    {"08_pipeline_parallel",
     "08_pipeline_parallel",
     kTwo + "--micro-batch-size 1 --global-batch-size 64 --steps 1",
     {{"419,430,400", "741 MB"}}},  // and 322 MB
    {"08_pipeline_parallel",
     "08_pipeline_parallel",
     "-n 8 --model gpt2-xl --device-memory 512MiB",
     {{"memory   9.99 GiB predicted", "memory   9.99 GiB predicted"},
      {"balance  0.899", "balance  0.899"}}},
    {"18_fine_tuning", "18_fine_tuning", kTune + "all", {{"state    16.000", "16.000"}}},
    {"18_fine_tuning", "18_fine_tuning", kTune + "last-1", {{"state    4.684", "4.684"}}},
    {"18_fine_tuning", "18_fine_tuning", kTune + "bias", {{"state    4.010", "4.010"}}},
    {"18_fine_tuning", "18_fine_tuning", kTune + "lora", {{"state    4.038", "4.038"}}},
    {"20_muon",
     "20_muon",
     kMuon + "--homes everywhere",
     {{"optimizer 625.40 MiB", "625 MiB"}, {"parameters 474.70 MiB", "475 more"}}},
    {"20_muon",
     "20_muon",
     kMuon + "--homes everywhere --dtype bf16",
     {{"1,153,539,072", "625 MiB"}, {"simulated step 47.9", "48.0"}}},
    {"20_muon",
     "20_muon",
     kMuon + "--optimizer adamw --dtype bf16",
     {{"simulated step 32.5", "32.5 ms"}}}};

TEST_CASE("numbers in the prose of stories are those of the command beside them") {
  for (const Taken& taken : kTaken) {
    CAPTURE(taken.story, taken.lesson, taken.command);
    Flags flags = split(taken.command, ' ');
    size_t num_ranks = 0;
    if (flags[0] == "-n") {
      num_ranks = std::stoul(flags[1]);
      flags.erase(flags.begin(), flags.begin() + 2);
    }
    // A small --device-memory ends some after the header, which is what they are for.
    const Scratch folder;
    const Flags argv = Flags{lesson_path(taken.lesson)} + flags;
    const std::string out = run_example(taken.lesson, num_ranks, argv, folder).out;
    CAPTURE(out);
    std::string story = read_text(program_path("lessons/" + taken.story + "/README.md"));
    std::ranges::replace(story, '\n', ' ');
    for (const auto& [printed, said] : taken.numbers) {
      CHECK_THAT(out, ContainsSubstring(printed));
      CHECK_THAT(story, ContainsSubstring(said));
    }
  }
}

TEST_CASE("a README without an example, or with another one, is not taken for one that agrees") {
  CHECK_THROWS_AS(example_of("\n## Run it\n\nRun it.\n"), Error);
  const Example example =
      example_of("\n## Run it\n\n`tools/run 02_ddp -n 4\n--steps 20` prints\n\n```\na\n...\n```\n");
  CHECK(example.num_ranks == 4);
  CHECK(example.flags == Flags{"--steps", "20"});
  CHECK(example.lines == std::vector<std::string>{"a", "..."});
}

}  // namespace
}  // namespace ladder
