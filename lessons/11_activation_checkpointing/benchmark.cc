// A training step of GPT-2 124M in each mode of --recompute, and with --offload-activations, on one
// thread:
//   bazel build //lessons/11_activation_checkpointing:benchmark
//   bazel-bin/lessons/11_activation_checkpointing/benchmark [ROUNDS]
//
// It first times the steps of a block by themselves. Then it times a whole step in each mode;
// `none` is lesson 01's. All modes have the same parameters and take turns within each round, so
// that other programs on the machine disturb all alike. It prints for each mode the least time of
// all rounds, its ratio to that of `none`, and the median of the ratios within a round.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "common/train/trainer/model_runner.h"
#include "common/train/trainer/model_state.h"
#include "kernels/elementwise.h"
#include "kernels/runtime/clock.h"
#include "kernels/runtime/median.h"
#include "kernels/runtime/threads.h"
#include "lessons/11_activation_checkpointing/policy.h"

namespace ladder {
namespace {

struct Mode {
  const char* name;
  const char* recompute;
  bool offload = false;
};
constexpr Mode kModes[] = {{"none", "none"},
                           {"cheap", "cheap"},
                           {"attention", "attention"},
                           {"mlp", "mlp"},
                           {"block", "block"},
                           {"every-2", "every-2"},
                           {"none, offloaded", "none", true},
                           {"block, offloaded", "block", true}};

// The step of one mode, on a state that all modes share.
class ModeBench {
 public:
  ModeBench(const TrainerContext& context, const Mode& mode, ModelState& state)
      : config_(context.config), context_(context), state_(state) {
    config_.recompute = parse_recompute(mode.recompute);
    config_.offload_activations = mode.offload;
    model_.emplace(TrainerContext{config_, context.corpus, context.device_memory,
                                  context.host_memory, context.stream},
                   state.layout(), state.parameters, state.gradients);
  }

  double step_ms() {
    const auto begin = Clock::now();
    fill(context_.stream, state_.gradients, 0);
    model_->load(Split::train, ++state_.step, 0);
    model_->forward();
    model_->classify(1 / static_cast<double>(config_.tokens_per_step()));
    model_->backward();
    model_->total_loss();
    state_.update(state_.optimizer.next_step(std::sqrt(state_.squared_norm())));
    context_.stream.synchronize();
    return 1e3 * seconds_since(begin);
  }

 private:
  RunConfig config_;
  TrainerContext context_;
  ModelState& state_;
  std::optional<ModelRunner> model_;
};

// Times each step of one transformer block's forward by itself, and prints what dropping its
// tensors saves for the time. The least of all times is the one least disturbed by others.
void measure_steps(const TrainerContext& context, const ModelState& state, size_t rounds) {
  const RunConfig& config = context.config;
  const Layout& layout = state.layout();
  const size_t batch = config.micro_batch_size, tokens = config.model.sequence_length;
  const Activations activations(context.device_memory, layout, config.dtype, batch, tokens);
  const ModelWorkspace workspace(context.device_memory, layout, config.dtype, batch, tokens);
  const auto block = std::ranges::find(layout.operations(), OperationKind::block, &Operation::kind);
  const ConstUnitView weights =
      unit_of<ConstTensorView>(layout, block->unit, state.parameters.view());
  for (const OperationCost& cost : operation_costs(config)) {
    double least = std::numeric_limits<double>::infinity();
    for (size_t round = 0; round < 10 * rounds; ++round) {
      const auto begin = Clock::now();
      block_forward(context.stream,
                    {block->sublayers,
                     activations.block(0),
                     activations.block_input(0),
                     weights,
                     workspace.block(activations),
                     {},
                     {}},
                    BlockOperations(1U << cost.operation));
      context.stream.synchronize();
      least = std::min(least, 1e3 * seconds_since(begin));
    }
    std::printf("%-10s %8.2f ms a block, %6.0f FLOP/byte, %8.2f MB/ms\n", cost.name, least,
                cost.flops / static_cast<double>(cost.bytes),
                static_cast<double>(cost.bytes) / 1e6 / least);
  }
}

void measure(size_t rounds) {
  set_num_threads(1);
  RunConfig config;
  config.model = {12, 12, 768, 50257, 256};
  config.global_batch_size = config.micro_batch_size = 4;
  config.optimizer.num_steps = 1'000'000;
  const Corpus corpus = Corpus::king_james();
  Memory device(DeviceType::cpu, "device", 0), host(DeviceType::cpu, "host", 0);
  Stream stream(DeviceType::cpu);
  const TrainerContext context = {config, corpus, device, host, stream};
  const Layout layout(config.model, 1);
  ModelState state(context, layout);
  state.initialize();
  std::printf("124M, B=4, T=256, one thread, %zu rounds\n", rounds);
  measure_steps(context, state, rounds);
  std::deque<ModeBench> benches;
  for (const Mode& mode : kModes) benches.emplace_back(context, mode, state);
  std::vector<std::vector<double>> times(benches.size()), ratios(benches.size());
  for (size_t round = 0; round <= rounds; ++round) {
    for (size_t i = 0; i < benches.size(); ++i) {
      const double ms = benches[i].step_ms();
      if (round == 0) continue;  // touches the memory
      times[i].push_back(ms);
      ratios[i].push_back(ms / times[0].back());
    }
  }
  const double least = *std::ranges::min_element(times[0]);
  for (size_t i = 0; i < benches.size(); ++i) {
    const double own = *std::ranges::min_element(times[i]);
    std::printf("%-16s %8.0f ms  of none %.3f  median of rounds %.3f\n", kModes[i].name, own,
                own / least, median(ratios[i]));
  }
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  ladder::measure(argc > 1 ? static_cast<size_t>(std::max(1, std::atoi(argv[1]))) : 5);
  return 0;
}
