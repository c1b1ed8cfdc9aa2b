// Compares attention of ranks that share a sequence with attention of one rank alone:
//   bazel build //lessons/14_context_parallel:benchmark
//   tools/mpirun -n 2 bazel-bin/lessons/14_context_parallel/benchmark --tokens 4096 --batch 2
//
// It is the attention of one layer of GPT-2 124M, forward and backward, with all that ranks
// exchange for it. Every rank has one thread. The ways to share a sequence take turns, so that
// other programs on the machine disturb all alike. It prints medians over the rounds: of the
// slowest rank's milliseconds, and of the speed as a part of N times the speed of one rank in the
// same round.
#include <array>
#include <cstdio>
#include <vector>

#include "common/train/bench/rank_benchmark.h"
#include "kernels/elementwise.h"
#include "kernels/runtime/median.h"
#include "lessons/14_context_parallel/context_share.h"

namespace ladder {
namespace {

using Method = ContextFlags::Method;

// One layer's attention, and its arguments for this rank's tokens of all sequences.
class Attention {
 public:
  Attention(const TrainerContext& context, const ContextFlags& flags)
      : stream_(context.stream), share_(context, flags), functions_(share_.attention()) {
    const RunConfig& config = context.config;
    const Gpt2Config& model = config.model;
    const SlicePlan plan = flags.plan(config, context.ranks->grid);
    const size_t tokens = plan.num_tokens(context.ranks->grid.place(Axis::context));
    const auto make = [&](Shape shape) {
      Tensor tensor(context.device_memory, Category::activations, config.dtype, shape);
      fill_normal(stream_, tensor, shape.num_elements(), 0, 1);
      return tensor;
    };
    const size_t batch = config.micro_batch_size;
    for (Tensor* tensor : {&qkv_, &dqkv_}) *tensor = make({batch, tokens, 3 * model.hidden});
    for (Tensor* tensor : {&out_, &dout_}) *tensor = make({batch, tokens, model.hidden});
    for (Tensor* tensor : {&logsumexp_, &row_dot_})
      *tensor = make({batch, model.num_heads, tokens});
  }

  void forward() { functions_.forward(stream_, out_, logsumexp_, qkv_); }
  void backward() { functions_.backward(stream_, dqkv_, row_dot_, dout_, out_, logsumexp_, qkv_); }

 private:
  Stream& stream_;
  ContextShare share_;
  ContextParallel functions_;
  Tensor qkv_, dqkv_, out_, dout_, logsumexp_, row_dot_;
};

void measure(RankBenchmark& ground) {
  const auto [tokens, batch, rounds] = ground.options();
  RunConfig config = ground.config();
  config.micro_batch_size = batch;
  const TrainerContext base = ground.context();
  const size_t size = ground.ranks().size(), rank = ground.ranks().rank();
  const ProcessGrid grid = {.context_size = size, .rank = rank};
  GridGroups groups(ground.ranks(), grid);
  const RankContext shared = {grid, ground.ranks(), &groups, base.ranks->registered};
  const RankContext single = {ProcessGrid{}, ground.ranks(), nullptr, base.ranks->registered};
  const auto context = [&](const RankContext& ranks) {
    return TrainerContext{config,           base.corpus, base.device_memory,
                          base.host_memory, base.stream, &ranks};
  };
  Attention alone(context(single), {});
  Attention zigzag(context(shared), {.slices = Slicing::zigzag});
  Attention contiguous(context(shared), {.slices = Slicing::contiguous});
  Attention ulysses(context(shared), {.attention = Method::ulysses});

  struct Way {
    const char* name;
    Attention& attention;
    std::vector<double> forward = {}, backward = {}, both = {}, speed = {};
  };
  std::array<Way, 4> ways = {{{"one rank", alone},
                              {"ring, zigzag", zigzag},
                              {"ring, contiguous", contiguous},
                              {"ulysses", ulysses}}};
  for (size_t round = 0; round <= rounds; ++round) {
    double of_one = 0;
    for (Way& way : ways) {
      const bool is_alone = &way.attention == &alone;
      const bool works = !is_alone || rank == 0;  // the others wait, and leave their core idle
      const double forward = ground.ms_of([&] {
        if (works) way.attention.forward();
      });
      const double backward = ground.ms_of([&] {
        if (works) way.attention.backward();
      });
      if (is_alone) of_one = forward + backward;
      if (round == 0) continue;  // touches the memory
      way.forward.push_back(forward);
      way.backward.push_back(backward);
      way.both.push_back(forward + backward);
      way.speed.push_back(of_one / (is_alone ? 1 : number_of(size)) / (forward + backward));
    }
  }
  if (rank != 0) return;
  std::printf(
      "attention of a layer of 124M, B=%zu, T=%zu, %zu ranks of one thread, medians of %zu "
      "rounds\n%-20s %10s %10s %10s   %s\n",
      batch, tokens, size, rounds, "", "forward", "backward", "both", "speed per rank");
  for (const Way& way : ways) {
    std::printf("%-20s %7.0f ms %7.0f ms %7.0f ms   %.3f\n", way.name, median(way.forward),
                median(way.backward), median(way.both), median(way.speed));
  }
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  return ladder::run_rank_benchmark(
      argc, argv, "Attention over a shared sequence against attention of one rank",
      [](CLI::App&) {}, ladder::measure);
}
