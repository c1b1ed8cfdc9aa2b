#include "tests/lessons/drawn_runs.h"

#include <algorithm>
#include <initializer_list>
#include <random>
#include <utility>

#include "kernels/runtime/check.h"

namespace ladder::testing {
namespace {

using Word = const char*;

constexpr size_t kMostRanks = 8;

// Draws a run step by step. Later draws look at earlier ones where most runs would be refused
// otherwise: what splits heads divides them, and there are enough blocks and tokens for all ranks.
class Drawing {
 public:
  Drawing(uint32_t number, uint32_t attempt)
      : random_(number * 1000 + attempt),
        family_random_(~(number * 1000 + attempt)),
        norm_random_(~(number * 1000 + attempt) / 2),
        train_random_(~(number * 1000 + attempt) / 3),
        objective_random_(~(number * 1000 + attempt) / 5) {}
  DrawnRun run();

 private:
  size_t below(size_t count) { return random_() % count; }
  bool one_in(size_t count) { return below(count) == 0; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }
  void add(const char* flag) { run_.flags.push_back(flag); }
  template <class T>
  void add(const char* flag, const T& value) {
    add(flag);
    run_.flags.push_back(concat(value));
  }
  bool is_one_of(std::initializer_list<const char*> lessons) const {
    return std::ranges::count(lessons, run_.lesson) > 0;
  }

  void draw_ranks();
  void draw_schedule();
  void draw_stage_layers(size_t num_parts);
  void draw_data_parallel();
  void draw_context();
  void draw_tensor();
  void draw_experts();
  void draw_model();
  void draw_family(size_t heads);
  void draw_block(size_t heads);
  void draw_head_norms();
  void draw_train();
  void draw_objective();
  void draw_batch();
  void draw_memory();
  void draw_connection();

  std::mt19937 random_, family_random_, norm_random_, train_random_, objective_random_;
  DrawnRun run_;
  size_t tensor_ = 1, context_ = 1, stages_ = 1, data_ = 1;
  size_t layers_ = 0, tokens_ = 0, micro_batches_ = 0;
};

void Drawing::draw_ranks() {
  run_.num_ranks = one_of<size_t>({1, 2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 8, 8});
  std::vector<size_t*> axes = {&data_};
  if (is_one_of({"07_tensor_parallel", "13_sequence_parallel"})) axes = {&tensor_};
  if (is_one_of({"08_pipeline_parallel", "16_pipeline_schedules"})) axes = {&stages_};
  if (is_one_of({"14_context_parallel"})) axes = {&data_, &context_};
  if (is_one_of({"09_3d_parallel"})) axes = {&tensor_, &context_, &stages_, &data_};
  size_t left = run_.num_ranks;
  for (size_t factor = 2; left > 1; ++factor) {
    for (; left % factor == 0; left /= factor) *axes[below(axes.size())] *= factor;
  }
}

void Drawing::draw_stage_layers(size_t num_parts) {
  std::vector<size_t> layers(num_parts, 0);
  if (num_parts > 2) std::fill(layers.begin() + 1, layers.end() - 1, 1);
  const size_t in_the_middle = num_parts > 2 ? num_parts - 2 : 0;
  for (size_t left = layers_ - std::min(layers_, in_the_middle); left > 0; --left) {
    ++layers[below(num_parts)];
  }
  std::string text;
  for (size_t count : layers) text += concat(text.empty() ? "" : ",", count);
  add("--stage-layers", text);
}

void Drawing::draw_schedule() {
  const bool has_chunks = !is_one_of({"08_pipeline_parallel"});
  const std::string schedule = has_chunks
                                   ? one_of<Word>({"naive", "gpipe", "1f1b", "interleaved",
                                                   "interleaved", "zb-h1", "zb-h2", "zb-v", "auto"})
                                   : one_of<Word>({"naive", "gpipe", "1f1b"});
  add("--schedule", schedule);
  size_t chunks = schedule == "zb-v" ? 2 : 1;
  if (schedule == "interleaved" || schedule == "auto") {
    chunks = 1 + below(3);
    add("--chunks", chunks);
  }
  const size_t parts = stages_ * chunks;
  // With one block less the model could not be cut into so many parts.
  const size_t fewest = parts > 4 ? parts - 3 : 1;
  layers_ = std::max(one_in(3) ? fewest : layers_, fewest);
  if (schedule == "interleaved") micro_batches_ = stages_ * (1 + below(2));
  if (schedule == "auto" && one_in(2)) add("--times", "3,2,4,1,0.5");
  if (parts > 1 && one_in(3)) draw_stage_layers(parts);
}

void Drawing::draw_data_parallel() {
  const bool has_stage = is_one_of({"09_3d_parallel", "10_mixed_precision", "15_expert_parallel"});
  if (has_stage) add("--zero-stage", below(2));
  if (has_stage ||
      is_one_of({"02_ddp", "03_zero1", "12_gradient_compression", "14_context_parallel"})) {
    if (one_in(2)) add("--bucket-bytes", one_of<size_t>({1, 700, 5000, 20000}));
  }
  if (is_one_of({"02_ddp", "12_gradient_compression", "14_context_parallel"}) && one_in(3)) {
    add("--no-overlap");
  }
  if (is_one_of({"02_ddp"}) && one_in(4)) add("--naive");
  const bool offloads = is_one_of({"06_offload"});
  const size_t zero = offloads ? 2 + below(2) : 3;
  if (offloads) add("--zero-stage", zero);
  if (offloads && zero == 3 && one_in(2)) add("--offload", "optimizer,parameters");
  if (!is_one_of({"05_zero3", "06_offload"}) || zero != 3) return;
  if (one_in(2)) add("--prefetch", below(4));
  if (one_in(3)) add("--keep-embedding");
  if (one_in(4)) add("--no-reshard-after-forward");
}

void Drawing::draw_context() {
  add("--context-parallel-size", context_);
  if (one_in(2)) add("--slices", one_of<Word>({"contiguous", "zigzag"}));
  if (is_one_of({"14_context_parallel"}) && one_in(2)) add("--attention", "ulysses");
  tokens_ += 2 * context_;
}

void Drawing::draw_tensor() {
  const bool is_grid = is_one_of({"09_3d_parallel"});
  if (is_grid) add("--tensor-parallel-size", tensor_);
  const bool splits_tokens =
      is_one_of({"13_sequence_parallel"}) || (is_grid && tensor_ > 1 && one_in(2));
  if (is_grid && splits_tokens) add("--sequence-parallel");
  if (!is_grid && splits_tokens && one_in(3)) add("--gathered", "keep");
  if (is_grid && !splits_tokens && tensor_ > 1 && stages_ > 1 && one_in(2)) {
    add("--scatter-messages");
  }
  if (is_grid && one_in(4)) add("--no-overlap", one_of<Word>({"data", "tensor", "data,tensor"}));
}

void Drawing::draw_experts() {
  const size_t parallel = run_.num_ranks % 2 == 0 ? one_of<size_t>({1, 2, run_.num_ranks}) : 1;
  const size_t experts = parallel * (1 + below(3));
  add("--experts", experts);
  add("--experts-per-token", 1 + below(std::min<size_t>(experts, 2)));
  add("--expert-parallel-size", parallel);
  add("--moe-every", 1 + below(layers_));
  add("--capacity-factor", one_of({0.0, 0.8, 1.0}));
}

void Drawing::draw_model() {
  const size_t heads = tensor_ * (1 + below(tensor_ > 2 ? 2 : 4));
  size_t head_size = one_of<size_t>({2, 3, 4, 5, 8});
  while (heads * head_size < 8) ++head_size;  // a layernorm over few elements magnifies rounding
  add("--layers", layers_);
  add("--heads", heads);
  add("--hidden", heads * head_size);
  if (one_in(2)) add("--ffn", tensor_ * (1 + below(40)));
  if (one_in(4)) add("--untied");
  add("--vocab", one_of<size_t>({250, 256, 257, 263}));
  add("--sequence-length", tokens_);
  draw_family(heads);
}

// Gives every second run the Llama family's block. What is drawn for it comes from numbers of its
// own, so the other runs are those that they would be without it.
void Drawing::draw_family(size_t heads) {
  std::swap(random_, family_random_);
  if (one_in(2)) draw_block(heads);
  std::swap(random_, family_random_);
}

// With heads of its own size.
void Drawing::draw_block(size_t heads) {
  add("--norm", "rmsnorm");
  add("--positions", "rotary");
  add("--mlp", "swiglu");
  add("--biases", one_of<Word>({"qkv", "none"}));
  add("--head-size", 2 * (1 + below(4)));
  add("--rope-theta", one_of<size_t>({10, 10'000}));
  if (one_in(3)) add("--rope-scaling", "llama3:8,1,4,4");
  if (one_in(3)) add("--norm-epsilon", 1e-6);
  size_t shared = 1 + below(heads);  // heads of q that share one of k and v
  while (heads % shared != 0) --shared;
  add("--key-value-heads", heads / shared);
  draw_head_norms();
}

// Of every second such block, by numbers of their own, too.
void Drawing::draw_head_norms() {
  std::swap(random_, norm_random_);
  if (one_in(2)) add("--qk-norm", "rmsnorm");
  std::swap(random_, norm_random_);
}

// Of every third run, by numbers of their own.
void Drawing::draw_train() {
  std::swap(random_, train_random_);
  if (one_in(3)) {
    const bool is_gpt2 = std::ranges::count(run_.flags, "rmsnorm") == 0;
    add("--train", is_gpt2 && one_in(3) ? "bias" : concat("last-", 1 + below(layers_)));
    if (one_in(2)) {  // adapters instead
      run_.flags.back() = "lora";
      add("--lora-rank", 1 + below(4));
      add("--lora-targets", is_gpt2 ? one_of({"qkv", "proj,fc", "c_proj,c_attn", "mlp-proj"})
                                    : one_of({"qkv", "q_proj,v_proj,down", "proj,up", "gate,up"}));
      if (one_in(2)) add("--lora-scale", "rslora");
    }
  }
  std::swap(random_, train_random_);
}

// Of every third run whose ranks have whole sequences: by numbers of their own, too.
void Drawing::draw_objective() {
  if (context_ > 1) return;
  std::swap(random_, objective_random_);
  if (one_in(3)) add("--objective", "masked");
  std::swap(random_, objective_random_);
}

void Drawing::draw_batch() {
  const size_t micro_batch = 1 + below(3);
  add("--micro-batch-size", micro_batch);
  add("--global-batch-size", micro_batch * micro_batches_ * data_);
  add("--clip-norm", one_of({0.0, 0.5, 1.0}));
  add("--learning-rate", 1e-3);
  add("--warmup-steps", 1);
  add("--steps", 3);
  add("--dtype", "fp64");
  add("--device", "cpu");
  add("--seed", below(100));
}

void Drawing::draw_memory() {
  if (one_in(3)) {
    add("--recompute", one_of<Word>({"cheap", "attention", "mlp", "block", "whole", "every-2"}));
  }
  if (one_in(5)) add("--offload-activations");
}

void Drawing::draw_connection() {
  run_.shares_memory = !one_in(4);
  run_.is_held_back = one_in(3);
  if (one_in(3)) run_.connection.segment_elements = one_of<size_t>({64, 1000});
  run_.connection.synchronous_sends = one_in(2);
  if (one_in(3)) {
    for (size_t rank = 0; rank < kMostRanks; ++rank) {
      run_.connection.machine_of.push_back(below(3));
    }
  }
}

DrawnRun Drawing::run() {
  run_.lesson = one_of<Word>({
      "02_ddp",
      "03_zero1",
      "04_zero2",
      "05_zero3",
      "06_offload",
      "07_tensor_parallel",
      "08_pipeline_parallel",
      "09_3d_parallel",
      "09_3d_parallel",
      "09_3d_parallel",
      "09_3d_parallel",
      "09_3d_parallel",
      "09_3d_parallel",
      "10_mixed_precision",
      "12_gradient_compression",
      "13_sequence_parallel",
      "14_context_parallel",
      "15_expert_parallel",
      "16_pipeline_schedules",
      "16_pipeline_schedules",
  });
  draw_ranks();
  layers_ = 1 + below(4);
  tokens_ = 3 + below(10);
  micro_batches_ = 1 + below(5);
  const bool is_grid = is_one_of({"09_3d_parallel"});
  if (is_grid) add("--pipeline-parallel-size", stages_);
  if (is_one_of({"08_pipeline_parallel", "16_pipeline_schedules"}) || (is_grid && stages_ > 1)) {
    draw_schedule();
  }
  draw_data_parallel();
  if (is_one_of({"14_context_parallel"}) || is_grid) draw_context();
  if (is_one_of({"13_sequence_parallel"}) || is_grid) draw_tensor();
  if (is_one_of({"15_expert_parallel"})) draw_experts();
  draw_model();
  draw_train();
  draw_objective();
  draw_batch();
  if (!is_one_of({"15_expert_parallel"})) draw_memory();
  draw_connection();
  return std::move(run_);
}

}  // namespace

std::string DrawnRun::text() const {
  std::string text = concat("tools/run ", lesson, " -n ", num_ranks);
  for (const std::string& flag : flags) text += " " + flag;
  if (!shares_memory) text += " (by messages)";
  if (connection.synchronous_sends) text += " (sends that wait)";
  if (is_held_back) text += " (held back)";
  if (!connection.machine_of.empty()) text += " (on machines";
  for (size_t machine : connection.machine_of) text += concat(" ", machine);
  if (!connection.machine_of.empty()) text += ")";
  return text;
}

DrawnRun draw_run(uint32_t number, uint32_t attempt) { return Drawing(number, attempt).run(); }

}  // namespace ladder::testing
