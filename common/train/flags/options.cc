#include "common/train/flags/options.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "common/cluster/cluster.h"
#include "common/train/flags/alike.h"
#include "common/train/flags/attention_choices.h"
#include "common/train/flags/command_line.h"
#include "common/train/flags/flag_table.h"
#include "common/train/flags/memory_flags.h"
#include "common/train/flags/model_flags.h"
#include "common/train/flags/named_files.h"
#include "common/train/flags/optimizer_flags.h"
#include "common/train/flags/sampling_flags.h"
#include "common/train/flags/saved_flags.h"
#include "common/train/flags/validators.h"
#include "common/virtual/cluster_times.h"
#include "kernels/runtime/threads.h"

namespace ladder {

// The values as they were parsed. Defaults that depend on other flags are not filled in yet.
struct Options::Raw {
  RunConfig config;
  ConnectionFlags connection;
  VirtualFlags virtual_flags;
  std::string dtype = "fp32", device = "auto", attention_kernel = "own";
  ModelFlags model;
  OptimizerFlags muon;
  SamplingFlags sampling;
  std::optional<size_t> micro_batch_size;
  std::optional<double> learning_rate, min_learning_rate;
  std::optional<int64_t> warmup_steps;
  std::optional<int> threads;
  std::string checkpoint_every = "0";
  std::optional<unsigned> grace;

  void add_training_flags(FlagTable& flags);
  void add_output_flags(FlagTable& flags);
  void add_checkpoint_flags(FlagTable& flags);
  void add_machine_flags(FlagTable& flags);
};

void Options::Raw::add_training_flags(FlagTable& flags) {
  OptimizerConfig& optimizer = config.optimizer;
  // What decides the numbers of a run is compared in any case.
  const auto decides = [](auto member) {
    return FlagTraits{.compared = ComparedBy::in_run, .in_run = in_run(member)};
  };
  flags.heading("Training");
  flags
      .add("--data", config.data,
           "A text file (bytes are tokens), a token shard, a folder of .bin shards, or a pattern "
           "in quotes ('shards/*.bin'); several with commas. They are read in the order given, "
           "those of a folder or pattern sorted by name; the order is part of the run [built-in "
           "King James text]",
           {.file = FileUse::read})
      ->join(',');  // a file of flags splits at commas
  flags.add("--global-batch-size", config.global_batch_size,
            "Sequences in an optimizer step [16, or the ranks that share them]",
            whole(1, 100'000'000), decides(&RunConfig::global_batch_size));
  flags.add("--micro-batch-size", micro_batch_size,
            "Sequences that a rank runs at a time [all of its own; on a pipeline a (4 p)-th of "
            "them]",
            whole(1, 100'000'000), {.in_run = in_run(&RunConfig::micro_batch_size)});
  flags.add("--steps", optimizer.num_steps,
            "Optimizer steps; 0 = none, only a sample or an export [200]", whole(0, 1'000'000'000),
            decides(&OptimizerConfig::num_steps));
  flags.add("--seed", config.seed, "Of initial weights and data order [1]",
            whole(0, std::numeric_limits<int64_t>::max()), decides(&RunConfig::seed));
  flags.add("--learning-rate", learning_rate, "Highest learning rate [preset]", real(0, 100, true),
            decides(&OptimizerConfig::learning_rate));
  flags.add("--min-learning-rate", min_learning_rate, "Lowest, at the end [a tenth of the highest]",
            real(0, 100), decides(&OptimizerConfig::min_learning_rate));
  flags.add("--warmup-steps", warmup_steps, "Steps to reach the highest [a twentieth of --steps]",
            whole(0, 1'000'000'000), decides(&OptimizerConfig::warmup_steps));
  flags.add("--weight-decay", optimizer.weight_decay, "Of 2-D weights [0.1]", real(0, 10),
            decides(&OptimizerConfig::weight_decay));
  flags.add("--beta1", optimizer.beta1, "AdamW [0.9]", real(0, 0.999999),
            decides(&OptimizerConfig::beta1));
  flags.add("--beta2", optimizer.beta2, "AdamW [0.95]", real(0, 0.999999),
            decides(&OptimizerConfig::beta2));
  flags.add("--epsilon", optimizer.epsilon, "AdamW [1e-8]", real(0, 1, true),
            decides(&OptimizerConfig::epsilon));
  flags.add("--clip-norm", optimizer.clip_norm, "Largest global gradient norm; 0 = no clipping [1]",
            real(0, 1e30), decides(&OptimizerConfig::clip_norm));
}

void Options::Raw::add_output_flags(FlagTable& flags) {
  const FlagTraits written = {.file = FileUse::written};
  flags.heading("Output", ComparedBy::nothing);
  flags.add("--evaluate-every", config.evaluate_every,
            "Steps between validation losses; 0 = never [50]", whole(0, 1'000'000'000));
  flags.add("--evaluate-batches", config.evaluate_batches, "Global batches in an evaluation [4]",
            whole(1, 1'000'000));
  flags.add("--dump", config.dump,
            "Folder: after every step loss, gradients, parameters and moments as safetensors",
            written);
  flags.add("--metrics", config.metrics,
            "File or pipe: one JSON object a step, there as soon as the step is done", written);
  flags.add("--tensorboard", config.tensorboard,
            "Folder: event files for TensorBoard: loss, speed, memory, communication, samples",
            written);
  flags.add("--trace", config.trace,
            "File: timeline of all ranks, for Perfetto or chrome://tracing", written);
  flags.add("--draw", config.draw,
            "File: SVG of what ranks do when: a pipeline's schedule, or the simulated step with "
            "--device virtual. FILE.csv: the schedule as PyTorch's pipelining reads it",
            written);
  flags.add("--export", config.export_to,
            "New folder: at the end the model, as transformers opens it (AutoModelForCausalLM)",
            written);
  flags.add("--peak-flops", config.peak_flops,
            "FLOP/s of one rank's device, to report mfu [unknown]", real(0, 1e30, true));
}

void Options::Raw::add_checkpoint_flags(FlagTable& flags) {
  CheckpointConfig& checkpoint = config.checkpoint;
  flags.heading("Checkpoints", ComparedBy::nothing);
  CLI::Option* const folder =
      flags.add("--checkpoint", checkpoint.path,
                "Folder: all that training needs to go on, after the last step and every so many "
                "before",
                {.file = FileUse::written});
  flags
      .add("--checkpoint-every", checkpoint_every,
           "Steps between checkpoints, or time, such as 10min (s, min, h); 0 = only after the last "
           "[0]",
           steps_or_time())
      ->needs(folder);
  flags
      .add("--keep", checkpoint.keep, "How many, the newest; 0 = all [0]", whole(0, 1'000'000'000))
      ->needs(folder);
  flags
      .add("--checkpoint-async", checkpoint.async,
           "Train on while a checkpoint is written, from a copy in host memory")
      ->needs(folder);
  flags
      .add("--resume", checkpoint.resume,
           "Go on after the newest checkpoint in the folder, if there is one")
      ->needs(folder);
  flags.add("--grace", grace,
            "Seconds from a signal (TERM, USR1, HUP, INT), which ends the run after a step, to its "
            "end by force [30 with --checkpoint, else 2]",
            whole(1, 86'400));
}

void Options::Raw::add_machine_flags(FlagTable& flags) {
  flags.heading("Machine");
  flags.add("--dtype", dtype, "fp32, fp64, bf16 or fp16 [fp32]",
            {.compared = ComparedBy::in_run, .in_run = in_run(&RunConfig::dtype)});
  flags.add("--round-logits", config.round_logits,
            "Logits in bf16 or fp16 instead of fp32: faster on a GPU, and a less exact loss");
  flags.add("--attention-kernel", attention_kernel,
            "own, or cudnn: NVIDIA's, on a GPU in bf16 or fp16, where cuDNN 9 is installed [own]");
  flags.add("--device", device, "auto, cpu, emulator, cuda, virtual [auto]",
            {.compared = ComparedBy::in_run, .in_run = on_real_device(in_run(&RunConfig::device))});
  flags.add("--threads", threads, "CPU threads of a rank [OMP_NUM_THREADS, or cores / ranks]",
            whole(1, 4096), {.in_run = on_real_device(in_run(&RunConfig::threads))});
}

namespace {

DType parse_dtype(const std::string& name, const LessonInfo& lesson) {
  if (name == "fp32") return DType::fp32;
  if (name == "fp64") return DType::fp64;
  const bool is_low = name == "bf16" || name == "fp16";
  if (!is_low) throw UserError(concat("--dtype ", name, ": expected fp32, fp64, bf16 or fp16"));
  if (name == "bf16" && lesson.precisions != Precisions::full) return DType::bf16;
  if (name == "fp16" && lesson.precisions == Precisions::all) return DType::fp16;
  const bool needs_scale = name == "fp16" && lesson.precisions == Precisions::bf16;
  throw UserError(concat("--dtype ", name, ": ", lesson.name,
                         needs_scale ? " has no loss scale, without which small gradients vanish"
                                     : " updates what it has on the host, in fp32 or fp64",
                         "; take 10_mixed_precision"));
}

void check_rounding(const RunConfig& config, const ProcessGrid& grid) {
  if (!config.round_logits) return;
  if (size_of(config.dtype) > 2) {
    throw UserError("--round-logits: only --dtype bf16 and fp16 have anything to round");
  }
  if (grid.tensor_size > 1) {
    throw UserError("--round-logits: with tensor parallelism exponentials would be rounded, too");
  }
}

// Returns the default micro-batch size. It is all of a rank's sequences at once. On a pipeline of p
// stages it makes about 4 p micro-batches, with which the bubble is small [Huang19, section 2].
size_t default_micro_batch(size_t sequences, size_t num_stages) {
  if (num_stages == 1) return sequences;
  size_t size = std::max<size_t>(1, sequences / (4 * num_stages));
  while (sequences % size != 0) --size;
  return size;
}

}  // namespace

RunConfig Options::resolve(const ProcessGrid& grid, size_t node_size) const {
  const Raw& raw = *raw_;
  raw.virtual_flags.check(is_virtual());
  RunConfig config = raw.config;
  const size_t data_size = grid.data_size, num_ranks = grid.world_size();
  const ModelPreset& preset = raw.model.resolve(config);
  if (config.model.experts.num_experts > 0 && !lesson_.has_experts) {
    const std::string model = "--model " + config.model_name, init = "--init " + config.init;
    throw UserError((config.init.empty() ? model : init) + " has experts; take 15_expert_parallel");
  }
  config.dtype = parse_dtype(raw.dtype, lesson_);
  check_rounding(config, grid);
  std::optional<Cluster> cluster;
  if (is_virtual()) cluster = read_cluster(raw.virtual_flags.cluster, raw.virtual_flags.program);
  config.device = cluster ? device_of(*cluster) : device_named(raw.device);
  check_objective(config, grid, cluster ? &*cluster : nullptr);
  config.attention_kernel = parse_attention_kernel(raw.attention_kernel);
  check_attention_kernel(config, grid, is_virtual());
  raw.connection.check(config.device);
  config.threads = raw.threads ? *raw.threads : default_num_threads(node_size);
  check_drawing(config.draw, is_virtual(), lesson_);
  if (is_virtual()) {
    VirtualFlags::refuse_values(config, raw.sampling.ask(config));
  } else {
    raw.sampling.resolve(config, preset.sample_tokens);
  }

  size_t& global = config.global_batch_size;
  if (app_->count("--global-batch-size") == 0) global = std::max(global, data_size);
  if (global % data_size != 0) {
    throw UserError(concat("--global-batch-size ", global, " does not divide among ",
                           sharers(data_size, num_ranks)));
  }
  config.micro_batch_size =
      raw.micro_batch_size.value_or(default_micro_batch(global / data_size, grid.pipeline_size));
  if (global / data_size % config.micro_batch_size != 0) {
    const std::string of_rank =
        concat("the ", counted(global / data_size, "sequence"), " of a rank (");
    throw UserError(
        concat("--micro-batch-size ", config.micro_batch_size, " does not divide ",
               data_size > 1 ? of_rank : "", "--global-batch-size ", global,
               data_size > 1 ? concat(" over ", sharers(data_size, num_ranks), ")") : ""));
  }

  CheckpointConfig& checkpoint = config.checkpoint;
  checkpoint.every_seconds = seconds_in(raw.checkpoint_every);
  checkpoint.every = checkpoint.every_seconds > 0 ? 0 : std::stoll(raw.checkpoint_every);
  checkpoint.grace_seconds = raw.grace.value_or(checkpoint.path.empty() ? 2 : 30);

  check_countable(config);
  raw.muon.resolve(config.optimizer, config.model, lesson_);
  OptimizerConfig& optimizer = config.optimizer;
  optimizer.learning_rate = raw.learning_rate.value_or(preset.learning_rate);
  optimizer.min_learning_rate = raw.min_learning_rate.value_or(optimizer.learning_rate / 10);
  optimizer.warmup_steps = raw.warmup_steps.value_or(optimizer.num_steps / 20);
  if (optimizer.min_learning_rate > optimizer.learning_rate) {
    throw UserError(concat("--min-learning-rate ", optimizer.min_learning_rate,
                           " is above --learning-rate ", optimizer.learning_rate));
  }
  if (optimizer.warmup_steps > optimizer.num_steps) {
    throw UserError(concat("--warmup-steps ", optimizer.warmup_steps, " is more than --steps ",
                           optimizer.num_steps));
  }
  return config;
}

Options::Options(const LessonInfo& lesson, const std::function<void(FlagTable&)>& add_flags)
    : lesson_(lesson),
      app_(std::make_unique<CLI::App>(lesson.description, lesson.name)),
      flags_(std::make_unique<FlagTable>(*app_)),
      raw_(std::make_unique<Raw>()) {
  raw_->model.add_to(*flags_, raw_->config);
  raw_->add_training_flags(*flags_);
  raw_->muon.add_to(*flags_);
  raw_->sampling.add_to(*flags_, raw_->config);
  raw_->add_output_flags(*flags_);
  raw_->add_checkpoint_flags(*flags_);
  raw_->add_machine_flags(*flags_);
  add_memory_flags(*flags_, raw_->config);
  if (lesson.is_distributed) raw_->connection.add_to(*flags_);
  raw_->virtual_flags.add_to(*flags_, lesson.is_distributed);
  add_flags(*flags_);
  app_->footer(help_footer(lesson.name, lesson.is_distributed ? 4 : 0));
}
Options::~Options() = default;

std::string Options::parse(int argc, const char* const* argv) {
  RunConfig& config = raw_->config;
  const std::vector<Setting> defaults = settings_of_flags(*app_);
  try {
    FlagsFile file = parse_command_line(*app_, argc, argv);
    config.flags_file = std::move(file.path);
    config.flags_note = std::move(file.note);
    config.save_flags = saved_path(*app_);
  } catch (const CLI::Success& asked) {
    return asked.what();
  }
  config.flags = flag_values(*flags_, defaults);
  config.inputs = flags_->files(FileUse::read);
  config.outputs = flags_->files(FileUse::written);
  return "";
}

void Options::save(const RunConfig& config) { save_flags(*flags_, &config); }
void Options::save_as_given() { save_flags(*flags_); }

bool Options::is_virtual() const { return raw_->device == VirtualFlags::kDevice; }
const VirtualFlags& Options::virtual_flags() const { return raw_->virtual_flags; }
const ConnectionFlags& Options::connection() const { return raw_->connection; }

}  // namespace ladder
