// The experts of the transformer blocks, spread over the ranks of an expert-parallel group.
// [Lepikhin20 GShard, section 3]
#pragma once

#include <map>

#include "common/comm/communicator.h"
#include "common/model/adapted_linear.h"
#include "common/model/mixture.h"
#include "kernels/router.h"
#include "lessons/15_expert_parallel/routing.h"

namespace ladder {

// ExpertLayer sends each token to the ranks that hold its experts (an all_to_all), runs the
// experts, and brings the results back (another one). Backward does the same with gradients.
// Letters: a micro-batch has R = B T tokens (rows) of C elements; each goes to k of E experts. N
// ranks hold E / N experts each.
class ExpertLayer final : public Mixture {
 public:
  struct Options {
    double capacity_factor = 0;     // expert_capacity()
    RouterFactors factors = {};     // of the losses' means over the tokens of a step
    Communicator* ranks = nullptr;  // the expert-parallel group; null: this rank has all experts
    MemorySource* registered = nullptr;  // the source of memory that peers read; null: the arena's
  };
  // Allocates for at most `batch` sequences of `tokens` tokens on every rank of the group: what a
  // block keeps for backward (category activations), and workspace. All ranks' tokens may come to
  // this rank's experts, and there is memory for them. `dtype` is the compute dtype.
  ExpertLayer(Memory& device, Memory& host, const Layout& layout, DType dtype, size_t batch,
              size_t tokens, const Options& options);

  void set_lengths(std::vector<size_t> lengths) override { lengths_ = std::move(lengths); }
  void forward(Stream& stream, const Operation& operation, const BlockActivations& block,
               const ConstUnitView& weights) override;
  void backward(Stream& stream, const Operation& operation, TensorView d_norm,
                ConstTensorView d_out, const UnitView& gradients, const BlockActivations& block,
                const ConstUnitView& weights) override;

  // What a block's router has done in the micro-batches whose backward has run since clear(), with
  // tokens that are not padding.
  struct Load {
    std::vector<double> kept, dropped;       // choices, by expert
    double balance = 0, z = 0, entropy = 0;  // sums over tokens (router_statistics)
    double num_tokens = 0;
  };
  // Returns the loads of this rank's tokens by block. Synchronizes the stream.
  std::map<size_t, Load> loads(Stream& stream);
  // Begins a step with so many tokens that are not padding, on all ranks together.
  void clear(Stream& stream, double num_tokens);

  // The most assignments that this rank's tokens have in a micro-batch, and the most that arrive
  // here.
  static size_t most_sent(const RoutingSizes& sizes, double capacity_factor);
  static size_t most_arriving(const RoutingSizes& sizes, double capacity_factor, size_t num_ranks);

 private:
  // What a block keeps from forward to backward.
  struct Block {
    Tensor probabilities, logsumexp, experts, weights, fractions;  // the router's
    Tensor assignments, grouped, arrived;                          // where rows lie (routing.h)
    Tensor in, fc, gelu;  // of this rank's experts: the rows that arrived, and the inner layer
    Tensor returned;      // what the experts have made of this rank's rows, by assignment
    Tensor totals;        // (3): the sums of Load, fp64
    Routing routing;
    Arrival arrival;
    Load load;
  };

  void route(Stream& stream, Block& b, const BlockActivations& block, const ConstUnitView& weights);
  void route_backward(Stream& stream, Block& b, TensorView d_norm, const UnitView& gradients,
                      const BlockActivations& block, const ConstUnitView& weights);
  void run(Stream& stream, Block& b, const BlockActivations& block, const ConstUnitView& weights);
  void run_backward(Stream& stream, Block& b, TensorView d_norm, ConstTensorView d_out,
                    const UnitView& gradients, const ConstUnitView& weights);
  // Brings `sent` (n, C), by assignment, to the ranks of the experts; `at_experts` gets what
  // arrives here, by expert. bring_back() does the reverse.
  void bring(Stream& stream, const Block& b, TensorView at_experts, ConstTensorView sent);
  void bring_back(Stream& stream, const Block& b, TensorView sent, ConstTensorView at_experts);
  // Calls body(expert, first, count) for each expert of this rank with its rows.
  template <class Body>
  void for_experts(const Block& b, Body body) const;
  // Return the linear layers of an expert, whose parameters begin with this index.
  AdaptedLinear first_of(const ConstUnitView& weights, size_t index) const {
    return {mlp_.first, weights, index + ExpertParameter::first_weight, adapters_};
  }
  AdaptedLinear second_of(const ConstUnitView& weights, size_t index) const {
    return {mlp_.second, weights, index + ExpertParameter::second_weight, adapters_};
  }
  RoutingSizes sizes_of(const BlockActivations& block) const;

  Options options_;
  double num_tokens_ = 1;        // of a step
  std::vector<size_t> lengths_;  // RoutingSizes
  Communicator alone_;           // used if options_.ranks is null
  Communicator& ranks_;
  const Sublayer mlp_;  // one expert, which has no norm
  size_t hidden_, num_experts_, chosen_;
  std::map<size_t, Block> blocks_;  // by index of the block
  // Workspace on the device: by assignment, by arrival, by expert, by choice.
  Tensor rows_, sent_, arrived_, at_experts_, d_inner_, dweights_, dlogits_, statistics_, sums_,
      sum_, adapters_;
  Tensor host_experts_, host_assignments_, host_rows_, host_grouped_, host_arrived_,
      host_fractions_, host_counts_;
};

}  // namespace ladder
