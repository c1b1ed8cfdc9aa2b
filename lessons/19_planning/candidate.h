// A way to train a model on a cluster: a lesson, and the flags that say its layout.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/cluster/cluster.h"
#include "common/train/program/program.h"
#include "common/train/trainer/config.h"

namespace ladder {

// What a plan is asked for.
struct PlanRequest {
  std::vector<std::string> model_flags;  // --model and the like, as the lessons know them
  std::string cluster_name;
  Cluster cluster;
  size_t num_ranks = 1;
  size_t global_batch_size = 0;  // sequences
  std::string dtype = "fp32";
  // What plans may use; empty: all that there is.
  std::vector<std::string> lessons = {}, recompute_modes = {};
  std::vector<int> zero_stages = {};
  std::vector<size_t> pipeline_sizes = {}, tensor_sizes = {};
  // Axes that communicate while nothing computes. If there are any, all plans are of lesson 09,
  // the only one that can do so for each of them.
  std::vector<std::string> no_overlap = {};
  // Bytes of a device that a plan leaves free for driver, cuBLAS and NCCL; none: as many as
  // memory_for_libraries() says.
  std::optional<size_t> keep_free = {};
  // Gets a line that says how far a search is, every five seconds.
  std::function<void(const std::string&)> told = {};
  // Is called again and again while a plan is looked at more closely; what it throws ends that.
  std::function<void()> watch = {};
};

// One lesson with one layout. data x pipeline x tensor is the number of ranks.
struct Candidate {
  std::string lesson = "01_single_gpu";
  size_t data = 1, pipeline = 1, tensor = 1;
  bool sequence_parallel = false;
  int zero_stage = 0;
  bool offload_parameters = false;  // of 06_offload, at stage 3
  size_t shard_size = 0;            // of 21_hybrid_shard
  std::string recompute = "none";
  size_t micro_batch_size = 1;

  size_t num_ranks() const { return data * pipeline * tensor; }
  size_t replica_size() const { return pipeline * tensor; }
  // Returns among how many ranks what ZeRO shards is divided.
  size_t sharers() const { return shard_size > 0 ? shard_size : data; }
};

// The lessons that plans can name.
inline const std::vector<std::string> kPlannedLessons = {
    "01_single_gpu", "02_ddp",         "03_zero1",           "04_zero2",       "05_zero3",
    "06_offload",    "09_3d_parallel", "10_mixed_precision", "21_hybrid_shard"};
// The modes of --recompute that are tried. Each later one computes more again.
inline const std::vector<std::string> kRecomputeModes = {"none", "cheap", "attention", "mlp",
                                                         "block"};

// Returns the axes, "data=8,pipeline=4,tensor=2". An axis of one rank is left out.
std::string layout_text(const Candidate& candidate);
// Returns the layout with ZeRO's stage, recomputation and micro-batch size in words.
std::string full_text(const Candidate& candidate);
// Returns the dtype that the candidate computes in: fp32 where its lesson does not have the
// request's. 06_offload has no 16-bit one, and fp16 is for 10_mixed_precision alone.
std::string compute_dtype(const Candidate& candidate, const PlanRequest& request);
// Returns the flags of the lesson's program, but for those that say where it runs.
std::vector<std::string> lesson_flags(const Candidate& candidate, const PlanRequest& request);
// Returns the command that simulates the candidate, tools/run and its arguments.
std::string simulation_command(const Candidate& candidate, const PlanRequest& request);
// Returns the command that runs it on a real cluster.
std::string real_command(const Candidate& candidate, const PlanRequest& request);

// Returns all candidates whose sizes divide, for a model with these sizes, of what the request
// allows. Tensor parallelism stays within a node.
std::vector<Candidate> all_candidates(const PlanRequest& request, const ModelConfig& model);

// Returns the sequences of about half a million tokens, a multiple of the ranks.
size_t default_batch(size_t num_ranks, const ModelConfig& model);
// Returns "bf16" if the cluster's devices have it, else "fp16" if they have that, else "fp32".
std::string default_dtype(const Cluster& cluster);

// Returns the dtype of this name. REQUIRES: there is one.
DType dtype_named(const std::string& name);

// Returns the tokens of an optimizer step, of all ranks together.
double tokens_per_step(const PlanRequest& request, const ModelConfig& model);

// A candidate as its lesson understands it.
struct Prepared {
  Program program;
  RunConfig config;
};

// Returns the programs of these lessons, and of 07 and 08, by their names.
const Programs& lesson_programs();

// Parses the candidate's flags as the lesson does. Throws UserError if the lesson refuses them.
Prepared prepare(const Candidate& candidate, const PlanRequest& request);

}  // namespace ladder
