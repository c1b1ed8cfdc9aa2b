// Everything that a user may choose about a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/data/masking.h"
#include "common/model/config.h"
#include "common/model/optimizer.h"
#include "common/model/recompute.h"
#include "common/train/trainer/flag_value.h"
#include "kernels/runtime/dtype.h"
#include "kernels/runtime/memory.h"

namespace ladder {

// The checkpoints of a run.
struct CheckpointConfig {
  std::string path;          // the folder that they are in; empty = none are written
  int64_t every = 0;         // steps; 0 = only after the last
  double every_seconds = 0;  // since the one before; 0 = whatever the time
  size_t keep = 0;           // so many, the newest; 0 = all
  bool resume = false;
  bool async = false;          // whether training goes on while one is written
  unsigned grace_seconds = 2;  // from a signal that ends the run to its end by force
};

// Whose kernels compute attention: ours, or those of NVIDIA's cuDNN (kernels/cudnn_attention.h).
enum class AttentionKernel { own, cudnn };

// All choices, with defaults. Options::resolve() fills in those that depend on others.
struct RunConfig {
  std::string model_name = "tiny";
  ModelConfig model;
  std::string data;          // paths and patterns (data_files.h); empty = the built-in text
  std::string task;          // path of a file of examples (task.h); empty = none
  std::string flags_file;    // path of the file of --config; empty = none
  std::string flags_note;    // what was read from it, a line of the header
  std::string save_flags;    // path of the file of --save-config; empty = none
  std::string init;          // a safetensors file, or a folder of them; empty = from the seed
  std::string init_adapter;  // a folder with adapters (adapter_config.h); empty = new ones

  size_t global_batch_size = 16;  // sequences in one optimizer step, over all ranks
  size_t micro_batch_size = 0;    // sequences that one rank runs at a time
  uint64_t seed = 1;
  OptimizerConfig optimizer;  // has the number of steps, too

  int64_t evaluate_every = 50;  // steps; 0 = never
  size_t evaluate_batches = 4;  // global batches in one evaluation
  size_t sample_tokens = 0;     // 0 = none
  std::string prompt;           // that samples continue; empty = none
  double temperature = 0.8;
  size_t top_k = 40;  // a sample draws from so many tokens; 0 = all

  DType dtype = DType::fp32;
  bool round_logits = false;  // whether logits have this dtype, too, and not fp32
  AttentionKernel attention_kernel = AttentionKernel::own;
  DeviceType device = DeviceType::cpu;
  std::string simulated;  // describes the cluster that the device is simulated on; empty = none
  int threads = 1;
  std::vector<size_t> machine_of = {};  // the machine of each rank, as a number; empty: one machine
  size_t device_memory = 0, host_memory = 0;  // the most bytes that a rank may use; 0 = no limit
  RecomputeMode recompute;                    // what backward computes again instead of keeping it
  bool offload_activations = false;           // whether what is kept waits on the host

  std::string dump, metrics, tensorboard, trace, draw;  // paths; empty = none
  std::string export_to;  // path of the folder for the trained model; empty = none
  std::string tokenizer;  // path of a tokenizer.json for samples and prompts; empty = none
  CheckpointConfig checkpoint;
  std::map<std::string, FlagValue> flags;  // all of the program, by name, as they were given
  // The files and folders that flags name, each with its flag, in the order of the rows.
  std::vector<std::pair<std::string, std::string>> inputs, outputs;
  double peak_flops = 0;  // FLOP/s of one rank's device, for the metric mfu; 0 = unknown

  // Returns the accumulation dtype, which gradients, moments and the parameters that AdamW updates
  // have. It is fp32 if `dtype` is bf16 or fp16, and `dtype` itself otherwise.
  DType accumulation() const { return accumulation_dtype(dtype); }
  // Returns how many micro-batches each rank runs in one step if data_size ranks share the global
  // batch.
  size_t num_micro_batches(size_t data_size) const {
    return global_batch_size / (micro_batch_size * data_size);
  }
  // Returns how batches are masked; nothing if the model learns the next token of each.
  std::optional<Masking> masking() const {
    if (!model.is_masked()) return std::nullopt;
    return Masking{model.vocab_size};
  }
  size_t tokens_per_step() const { return global_batch_size * model.sequence_length; }
  // Returns whether the run learns from examples: of a task, or of what a head is to tell apart.
  bool has_examples() const { return !task.empty() || !model.labels.empty(); }
};

}  // namespace ladder
