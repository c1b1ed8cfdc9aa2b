#include "tools/course/spine/spine.h"

#include "common/cluster/comm_time.h"
#include "common/io/text.h"
#include "common/model/description.h"
#include "common/train/program/needed_memory.h"
#include "common/train/report/report.h"
#include "common/train/run/simulated_rank.h"
#include "common/train/run/virtual_run.h"
#include "kernels/runtime/cost.h"
#include "lessons/19_planning/search.h"
#include "tools/programs/lessons.h"

namespace ladder {
namespace {

// What every lesson is asked. The model has the size of GPT-3 2.7B and the sequences of GPT-2.
const PlanRequest& request() {
  static const PlanRequest asked = {
      .model_flags = {"--model", "gpt2", "--layers", "32", "--heads", "32", "--hidden", "2560"},
      .cluster_name = "rtx3090x8",
      .cluster = read_cluster("rtx3090x8"),
      .num_ranks = 8,
      .global_batch_size = 64,
      .dtype = "bf16"};
  return asked;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += " " + word;
  return text;
}

std::string batch_flag() { return concat(" --global-batch-size ", request().global_batch_size); }

// A program of a lesson with its flags.
struct Training {
  Program program;
  size_t num_ranks;
  RunConfig config;

  // `command` has the lesson's name and the flags that are not in spine_flags().
  explicit Training(const std::string& command) {
    const std::vector<std::string> words = words_of(command + spine_flags());
    program = program_of(words.front());
    num_ranks = program.lesson.is_distributed ? request().num_ranks : 1;
    config = resolve_flags(program, {words.begin() + 1, words.end()}, num_ranks);
    config.device_memory = spine_card_memory();
    program = program.planned(config, grid(0));
  }
  ProcessGrid grid(size_t rank) const { return program.grid(num_ranks, rank); }
};

size_t num_parameters() { return describe(Training("02_ddp").config.model).num_parameters(); }

// Predicts what the ranks need and send.
void predict_into(SpineLine& line, const Training& training) {
  NeededMemory need;
  for (size_t rank = 0; rank < training.num_ranks; ++rank) {
    const ProcessGrid grid = training.grid(rank);
    const Prediction prediction = predict(training.program, training.config, grid);
    need.consider(rank, prediction.device, prediction.host);
    for (const auto& [key, traffic] : prediction.step) {
      line.sent += wire_bytes(key.collective, grid.size(key.axis), traffic);
    }
  }
  line.sent /= number_of(training.num_ranks);
  line.memory = need.device.total();
  line.fits = line.memory <= spine_card_memory() &&
              need.host.total() * training.num_ranks <= request().cluster.host_memory;
}

// The following fill in a line whose lesson and command are known.

void take_step(SpineLine& line) {
  const Training training(line.command);
  predict_into(line, training);
  if (!line.fits) return;
  const SimulatedStep step =
      VirtualRun(training.program, training.config, request().cluster, training.num_ranks).run();
  check(step.device.total() == line.memory, "the spine: memory is as predicted");
  line.seconds = step.seconds;
  line.tokens_a_day = 24 * 60 * 60 * step.tokens_per_second;
}

void sum_gradients(SpineLine& line) {
  const size_t size = request().num_ranks, bytes = sizeof(float) * num_parameters();
  line.sent = wire_bytes(Collective::all_reduce, size, bytes);
  line.seconds = collective_seconds(request().cluster, Collective::all_reduce,
                                    {.num_ranks = size, .ranks_per_node = size}, number_of(bytes));
}

void copy_checkpoint(SpineLine& line) {
  const Training training(line.lesson);
  Rehearsal rehearsal(training.config, training.grid(0));
  const auto trainer = training.program.make(rehearsal.context());
  for (const NamedSlice& stored : trainer->stored()) {
    line.sent += number_of(stored.slice.view.num_bytes());
  }
  line.seconds = copy_seconds(request().cluster, line.sent);
}

void search_layouts(SpineLine& line) {
  constexpr double kSeconds = 600;  // so many that it never stops early
  const ModelConfig model = prepare(Candidate(), request()).config.model;
  const SearchResult found = search_plans(request(), model, 1, kSeconds);
  check(!found.plans.empty() && found.num_unknown == 0, "the search found the fastest layout");
  const Candidate& best = found.plans.front().candidate;
  line.why = concat("the fastest of ", found.num_candidates, " layouts: ", full_text(best), ", ",
                    compute_dtype(best, request()));
  PlanRequest of_any_model = request();
  of_any_model.model_flags.clear();
  line.command = best.lesson + joined(lesson_flags(best, of_any_model));
  line.command.erase(line.command.find(batch_flag()), batch_flag().size());
  take_step(line);
}

struct SpineLesson {
  std::string name, why, command = {};
  void (*fill)(SpineLine& line) = take_step;
};

// A lesson's own program takes the step. Where that is for one card, or where each card has the
// whole model, it is another program if that has the idea. From lesson 10 on steps are in bf16.
const std::vector<SpineLesson> kLessons = {
    {"00_collectives", "not a step: one sum of all gradients", "", sum_gradients},
    {"01_single_gpu", "one card has everything", "01_single_gpu --micro-batch-size 1"},
    {"02_ddp", "each card has everything", "02_ddp --micro-batch-size 1"},
    {"03_zero1", "only the optimizer's state is sharded", "03_zero1 --micro-batch-size 1"},
    {"04_zero2", "gradients are sharded too: just enough", "04_zero2 --micro-batch-size 1"},
    {"05_zero3", "parameters too: two sequences fit at a time", "05_zero3 --micro-batch-size 2"},
    {"06_offload", "all state is on the host, whose memory the cards share",
     "06_offload --zero-stage 3 --offload optimizer,parameters --micro-batch-size 2"},
    {"07_tensor_parallel", "the cards wait for each other four times in every block",
     "07_tensor_parallel --micro-batch-size 8"},
    {"08_pipeline_parallel", "few bytes are sent, but stages wait for each other",
     "08_pipeline_parallel --micro-batch-size 1"},
    {"09_3d_parallel", "four replicas of two stages, with ZeRO-1: less waiting",
     "09_3d_parallel --pipeline-parallel-size 2 --zero-stage 1 --micro-batch-size 1"},
    {"10_mixed_precision", "7.5 bytes a parameter, not 9, and faster products: ZeRO-1 is enough",
     "10_mixed_precision --dtype bf16 --zero-stage 1 --micro-batch-size 1"},
    {"11_activation_checkpointing", "lesson 10, and two sequences fit at a time",
     "10_mixed_precision --dtype bf16 --zero-stage 1 --recompute cheap --micro-batch-size 2"},
    {"12_gradient_compression", "few bytes are sent, but each card has everything",
     "12_gradient_compression --dtype bf16 --compression int8 --micro-batch-size 1"},
    {"13_sequence_parallel", "lesson 07 in bf16, gathered rows kept: half the bytes, as many waits",
     "13_sequence_parallel --dtype bf16 --gathered keep --micro-batch-size 16"},
    {"14_context_parallel", "sequences are so short that sharing them does not pay",
     "09_3d_parallel --dtype bf16 --context-parallel-size 2 --zero-stage 1 --micro-batch-size 2"},
    {"15_expert_parallel", "another model: eight experts in every second block",
     "15_expert_parallel --dtype bf16 --zero-stage 1 --micro-batch-size 1"},
    {"16_pipeline_schedules", "lesson 08 in bf16, with a list that fills the waits",
     "16_pipeline_schedules --dtype bf16 --schedule auto --micro-batch-size 2"},
    {"17_elastic", "not a step: one checkpoint, copied to the host", "", copy_checkpoint},
    {"18_fine_tuning", "only adapters are trained: each card has everything, and space left",
     "18_fine_tuning --dtype bf16 --train lora --micro-batch-size 4"},
    {"19_planning", "", "", search_layouts},
    {"20_muon", "lesson 10 with Muon: matrices have no second moment, and there is more to compute",
     "20_muon --dtype bf16 --micro-batch-size 1"},
    {"21_hybrid_shard",
     "two copies of four cards; one copy on all eight, as lesson 19 finds, is faster",
     "21_hybrid_shard --dtype bf16 --shard-size 4 --recompute cheap --micro-batch-size 4"}};

}  // namespace

std::string spine_question() {
  return format("%.2f billion parameters on eight RTX 3090 cards of 24 GB in one machine",
                1e-9 * number_of(num_parameters()));
}

std::string spine_flags() {
  return concat(" --device virtual --cluster ", request().cluster_name,
                joined(request().model_flags), batch_flag());
}

size_t spine_card_memory() { return request().cluster.device_memory; }

const std::vector<SpineLine>& spine_lines() {
  static const std::vector<SpineLine> all = [] {
    std::vector<SpineLine> lines;
    for (const auto& [name, why, command, fill] : kLessons) {
      lines.push_back({.lesson = name, .why = why, .command = command});
      fill(lines.back());
    }
    return lines;
  }();
  return all;
}

}  // namespace ladder
