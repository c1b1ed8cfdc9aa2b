// Training steps of GPT-2 124M that take turns, on ranks of one thread:
//   tools/build //tools/measure/turns
//   tools/mpirun -n 2 bazel-bin/tools/measure/turns/turns 06 --tokens 256 --rounds 3
//   tools/mpirun -n 2 bazel-bin/tools/measure/turns/turns "02_ddp" "02_ddp --no-overlap"
//
// It compares what is named, a lesson and its flags each, or what a name of the table below stands
// for. What is compared exists at once, so that other programs on the machine disturb all alike.
// For pipelines it adds the bubbles, as measured and as the simulator predicts them with the times
// that were measured. With fewer cores than threads none of this says anything.
#include <CLI/CLI.hpp>
#include <map>

#include "common/io/standard_streams.h"
#include "common/train/flags/command_line.h"
#include "common/train/trainer/guarded.h"
#include "kernels/runtime/threads.h"
#include "tools/measure/turns/turns.h"

namespace ladder {
namespace {

constexpr LessonInfo kTool = {.name = "turns", .description = "Training steps that take turns"};

using Texts = std::vector<std::string>;

// Each list takes turns. A floor is the least that a step must do.
const std::map<std::string, std::vector<Texts>> kComparisons = {
    {"02", {{"floor", "02_ddp", "01_single_gpu"}}},
    {"06",
     {{"02_ddp", "03_zero1"},
      {"02_ddp", "04_zero2"},
      {"02_ddp", "05_zero3"},
      {"02_ddp", "06_offload"},
      {"02_ddp", "06_offload --zero-stage 3 --offload-parameters"}}},
    {"09",
     {{"01_single_gpu", "07_tensor_parallel"},
      {"01_single_gpu --micro-batch-size 1", "08_pipeline_parallel --micro-batch-size 1"},
      {"01_single_gpu --micro-batch-size 1",
       "08_pipeline_parallel --micro-batch-size 1 --schedule gpipe"}}},
    // fp16 has no floor, since no CPU here can multiply it.
    {"10",
     {{"floor --dtype bf16", "10_mixed_precision --dtype bf16", "10_mixed_precision"},
      {"10_mixed_precision", "10_mixed_precision --dtype fp16"}}},
    {"11",
     {{"01_single_gpu", "01_single_gpu --recompute cheap"},
      {"01_single_gpu", "01_single_gpu --recompute attention"},
      {"01_single_gpu", "01_single_gpu --recompute mlp"},
      {"01_single_gpu", "01_single_gpu --recompute block"},
      {"01_single_gpu", "01_single_gpu --recompute every-2"},
      {"01_single_gpu", "01_single_gpu --offload-activations"},
      {"01_single_gpu", "01_single_gpu --recompute block --offload-activations"}}},
    {"13",
     {{"07_tensor_parallel", "13_sequence_parallel --gathered again",
       "13_sequence_parallel --gathered keep"}}},
    {"16",
     {{"08_pipeline_parallel --micro-batch-size 1",
       "16_pipeline_schedules --micro-batch-size 1 --schedule 1f1b",
       "16_pipeline_schedules --micro-batch-size 1 --schedule interleaved",
       "16_pipeline_schedules --micro-batch-size 1 --schedule zb-h1",
       "16_pipeline_schedules --micro-batch-size 1 --schedule zb-v"}}}};

// What is not a training step. It may be told the lesson's flags.
const std::map<std::string, void (*)(Ground&, const Texts&)> kSpecial = {
    {"11-operations", compare_operations}, {"14", compare_attention}, {"15", compare_experts}};

void compare(Ground& ground, const Texts& named) {
  if (const auto special = kSpecial.find(named[0]); special != kSpecial.end()) {
    return special->second(ground, {named.begin() + 1, named.end()});
  }
  const auto found = kComparisons.find(named[0]);
  for (const Texts& list :
       found == kComparisons.end() ? std::vector<Texts>{named} : found->second) {
    std::vector<Contestant> contestants;
    for (const std::string& text : list) contestants.push_back(contestant(ground, text));
    take_turns(ground, contestants);
  }
}

int run_turns(int argc, const char* const* argv) {
  return run_guarded(kTool, [&](Job& job) {
    TurnsOptions options;
    Texts named;
    CLI::App app(kTool.description, kTool.name);
    app.add_option("CONTESTANT", named,
                   "A lesson and its flags, or one of 02 06 09 10 11 "
                   "11-operations 13 14 15 16")
        ->required();
    app.add_option("--model", options.model, "Preset")->capture_default_str();
    app.add_option("--tokens", options.tokens, "Tokens of a sequence")->capture_default_str();
    app.add_option("--batch", options.batch, "Sequences of the global batch")
        ->capture_default_str();
    app.add_option("--rounds", options.rounds, "Measured rounds")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000));
    app.add_option("--threads", options.threads, "Threads of a rank")->capture_default_str();
    try {
      parse_command_line(app, argc, argv);
    } catch (const CLI::Success& asked) {
      if (job.rank() == 0) print(asked.what());
      return;
    }
    job.connect({});
    set_num_threads(options.threads);
    Ground ground = {job, options};
    ground.say(concat(options.model, ", B=", options.batch, ", T=", options.tokens, ", ",
                      counted(job.size(), "rank"), " of ", counted(options.threads, "thread"),
                      ", medians of ", counted(options.rounds, "round"), "\n"));
    compare(ground, named);
  });
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) { return ladder::run_turns(argc, argv); }
