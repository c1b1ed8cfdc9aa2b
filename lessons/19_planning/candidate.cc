#include "lessons/19_planning/candidate.h"

#include <algorithm>
#include <array>

#include "common/model/divisible.h"
#include "common/train/run/simulated_rank.h"
#include "lessons/01_single_gpu/trainer.h"
#include "lessons/02_ddp/trainer.h"
#include "lessons/03_zero1/trainer.h"
#include "lessons/04_zero2/trainer.h"
#include "lessons/05_zero3/trainer.h"
#include "lessons/06_offload/trainer.h"
#include "lessons/07_tensor_parallel/trainer.h"
#include "lessons/08_pipeline_parallel/trainer.h"
#include "lessons/09_3d_parallel/trainer.h"
#include "lessons/10_mixed_precision/trainer.h"
#include "lessons/21_hybrid_shard/trainer.h"

namespace ladder {
namespace {

std::vector<std::string> virtual_flags(const Candidate& candidate, const PlanRequest& request) {
  std::vector<std::string> flags = {"--device", "virtual", "--cluster", request.cluster_name};
  const std::string& program = request.cluster.program.name;
  if (!program.empty()) flags.insert(flags.end(), {"--program", program});
  if (candidate.lesson != "01_single_gpu") {
    flags.insert(flags.end(), {"--ranks", concat(candidate.num_ranks())});
  }
  return flags;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += concat(" ", word);
  return text;
}

template <class T>
bool allows(const std::vector<T>& allowed, const T& value) {
  return allowed.empty() || std::ranges::find(allowed, value) != allowed.end();
}

// Adds the candidate with all micro-batch sizes and modes of recomputation. Sizes are powers of
// two, and all sequences of a rank.
void add_variants(Candidate one, const PlanRequest& request, std::vector<Candidate>& all) {
  const size_t global = request.global_batch_size;
  if (global % one.data != 0 || !allows(request.lessons, one.lesson)) return;
  if (!allows(request.zero_stages, one.zero_stage)) return;
  if (!allows(request.pipeline_sizes, one.pipeline)) return;
  if (!allows(request.tensor_sizes, one.tensor)) return;
  const size_t own = global / one.data;
  for (size_t size = 1; size <= own; size *= 2) {
    if (own % size != 0) break;
    one.micro_batch_size = size;
    for (const std::string& mode : kRecomputeModes) {
      if (!allows(request.recompute_modes, mode)) continue;
      one.recompute = mode;
      all.push_back(one);
    }
  }
}

// Adds the lessons whose ranks differ in their data alone.
void add_data_parallel(const PlanRequest& request, std::vector<Candidate>& all) {
  Candidate one;
  one.data = request.num_ranks;
  std::vector<std::string> lessons = {"01_single_gpu"};
  if (one.data > 1) lessons = {"02_ddp", "03_zero1", "04_zero2", "05_zero3"};
  for (size_t stage = 0; stage < lessons.size(); ++stage) {
    one.lesson = lessons[stage];
    one.zero_stage = static_cast<int>(stage);
    add_variants(one, request, all);
  }
  one.lesson = "21_hybrid_shard";
  one.zero_stage = 3;
  // A copy has whole machines: with less memory free, no network would carry less.
  for (one.shard_size = std::max<size_t>(2, request.cluster.devices_per_node);
       one.shard_size < one.data; one.shard_size *= 2) {
    if (one.data % one.shard_size == 0) add_variants(one, request, all);
  }
  one.shard_size = 0;
  one.lesson = "10_mixed_precision";
  for (one.zero_stage = 0; one.zero_stage <= (one.data > 1 ? 1 : 0); ++one.zero_stage) {
    if (request.dtype == "fp16") add_variants(one, request, all);
  }
  one.lesson = "06_offload";
  one.zero_stage = 2;
  add_variants(one, request, all);
  one.zero_stage = 3;
  one.offload_parameters = true;
  add_variants(one, request, all);
}

// Adds lesson 09 with one pair of pipeline and tensor sizes. Without either, its ranks differ in
// their data alone, as in the lessons before.
void add_grid(size_t pipeline, size_t tensor, const PlanRequest& request,
              std::vector<Candidate>& all) {
  Candidate one;
  one.lesson = "09_3d_parallel";
  one.pipeline = pipeline;
  one.tensor = tensor;
  one.data = request.num_ranks / (pipeline * tensor);
  for (const bool splits_tokens : {false, true}) {
    if (splits_tokens && tensor == 1) continue;
    one.sequence_parallel = splits_tokens;
    for (const int stage : {0, 1}) {
      if (stage == 1 && one.data == 1) continue;
      one.zero_stage = stage;
      add_variants(one, request, all);
    }
  }
}

}  // namespace

const Programs& lesson_programs() {
  static const auto all =
      programs_of<SingleGpuTrainer, DdpTrainer, Zero1Trainer, Zero2Trainer, Zero3Trainer,
                  OffloadTrainer, TensorParallelTrainer, PipelineTrainer, ThreeDTrainer,
                  MixedPrecisionTrainer, HybridShardTrainer>();
  return all;
}

std::string layout_text(const Candidate& candidate) {
  std::string text;
  const auto add = [&](const char* name, size_t size) {
    if (size > 1) text += concat(text.empty() ? "" : ",", name, "=", size);
  };
  add("data", candidate.data);
  add("pipeline", candidate.pipeline);
  add("tensor", candidate.tensor);
  return text.empty() ? "one device" : text;
}

std::string full_text(const Candidate& candidate) {
  std::string text = concat(candidate.lesson, " ", layout_text(candidate));
  if (candidate.sequence_parallel) text += ", sequence parallel";
  if (candidate.zero_stage > 0) text += concat(", ZeRO-", candidate.zero_stage);
  if (candidate.shard_size > 0) text += concat(", shards of ", candidate.shard_size);
  return text +
         concat(", recompute ", candidate.recompute, ", micro-batch ", candidate.micro_batch_size);
}

std::string compute_dtype(const Candidate& candidate, const PlanRequest& request) {
  const bool is_there = request.dtype == "bf16"   ? candidate.lesson != "06_offload"
                        : request.dtype == "fp16" ? candidate.lesson == "10_mixed_precision"
                                                  : true;
  return is_there ? request.dtype : "fp32";
}

std::vector<std::string> lesson_flags(const Candidate& candidate, const PlanRequest& request) {
  std::vector<std::string> flags = request.model_flags;
  const auto add = [&](const char* name, const auto& value) {
    flags.insert(flags.end(), {name, concat(value)});
  };
  add("--dtype", compute_dtype(candidate, request));
  add("--global-batch-size", request.global_batch_size);
  add("--micro-batch-size", candidate.micro_batch_size);
  if (candidate.recompute != "none") add("--recompute", candidate.recompute);
  if (candidate.lesson == "06_offload") {
    add("--zero-stage", candidate.zero_stage);
    if (candidate.offload_parameters) add("--offload", "optimizer,parameters");
  }
  if (candidate.lesson == "10_mixed_precision") add("--zero-stage", candidate.zero_stage);
  if (candidate.lesson == "21_hybrid_shard") add("--shard-size", candidate.shard_size);
  if (candidate.lesson != "09_3d_parallel") return flags;
  add("--pipeline-parallel-size", candidate.pipeline);
  add("--tensor-parallel-size", candidate.tensor);
  if (candidate.sequence_parallel) flags.push_back("--sequence-parallel");
  if (candidate.zero_stage > 0) add("--zero-stage", candidate.zero_stage);
  for (const std::string& axis : request.no_overlap) add("--no-overlap", axis);
  return flags;
}

std::string simulation_command(const Candidate& candidate, const PlanRequest& request) {
  return concat("tools/run ", candidate.lesson, joined(virtual_flags(candidate, request)),
                joined(lesson_flags(candidate, request)));
}

std::string real_command(const Candidate& candidate, const PlanRequest& request) {
  const bool is_alone = candidate.lesson == "01_single_gpu";
  return concat("tools/run ", candidate.lesson,
                is_alone ? std::string() : concat(" -n ", candidate.num_ranks()),
                joined(lesson_flags(candidate, request)));
}

std::vector<Candidate> all_candidates(const PlanRequest& request, const ModelConfig& model) {
  std::vector<Candidate> all;
  const bool overlaps = request.no_overlap.empty();
  if (overlaps) add_data_parallel(request, all);
  const size_t most_tensor = std::min(request.num_ranks, request.cluster.devices_per_node);
  for (size_t tensor = 1; tensor <= most_tensor; ++tensor) {
    if (request.num_ranks % tensor != 0 || !can_split(model, tensor)) continue;
    const size_t groups = request.num_ranks / tensor;
    for (size_t pipeline = 1; pipeline <= std::min(groups, model.num_layers); ++pipeline) {
      if (groups % pipeline != 0 || (overlaps && tensor * pipeline == 1)) continue;
      add_grid(pipeline, tensor, request, all);
    }
  }
  return all;
}

size_t default_batch(size_t num_ranks, const ModelConfig& model) {
  constexpr size_t kTokens = size_t{1} << 19;
  const size_t for_each = kTokens / (model.sequence_length * num_ranks);
  return num_ranks * std::max<size_t>(1, for_each);
}

std::string default_dtype(const Cluster& cluster) {
  const auto has = [&](DType dtype) {
    return cluster.product_flops[static_cast<size_t>(dtype)] > 0;
  };
  return has(DType::bf16) ? "bf16" : has(DType::fp16) ? "fp16" : "fp32";
}

DType dtype_named(const std::string& name) {
  constexpr std::array kAll = {DType::fp32, DType::fp64, DType::bf16, DType::fp16};
  return *std::ranges::find(kAll, name, [](DType dtype) { return name_of(dtype); });
}

double tokens_per_step(const PlanRequest& request, const ModelConfig& model) {
  return static_cast<double>(request.global_batch_size * model.sequence_length);
}

Prepared prepare(const Candidate& candidate, const PlanRequest& request) {
  Prepared prepared{.program = lesson_programs().at(candidate.lesson)(), .config = {}};
  std::vector<std::string> flags = virtual_flags(candidate, request);
  std::ranges::copy(lesson_flags(candidate, request), std::back_inserter(flags));
  prepared.config = resolve_flags(prepared.program, flags, candidate.num_ranks());
  return prepared;
}

}  // namespace ladder
