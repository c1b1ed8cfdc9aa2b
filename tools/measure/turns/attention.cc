// The attention of one layer on ranks that share a sequence, against that of one rank alone.
#include "kernels/elementwise.h"
#include "lessons/14_context_parallel/context_share.h"
#include "tools/measure/turns/turns.h"

namespace ladder {
namespace {

// One layer's attention, and its arguments for this rank's tokens of all sequences.
class Attention {
 public:
  Attention(const TrainerContext& context, const ContextFlags& flags)
      : stream_(context.stream), share_(context, flags), functions_(share_.attention()) {
    const RunConfig& config = context.config;
    const ModelConfig& model = config.model;
    const SlicePlan plan = flags.plan(config, context.ranks->grid);
    const size_t tokens = plan.num_tokens(context.ranks->grid.group_rank(Axis::context));
    const auto make = [&](Shape shape) {
      Tensor tensor(context.device_memory, Category::activations, config.dtype, shape);
      fill_normal(stream_, tensor, shape.num_elements(), 0, 1);
      return tensor;
    };
    const size_t batch = config.global_batch_size;
    for (Tensor* tensor : {&qkv_, &dqkv_})
      *tensor = make({batch, tokens, model.query_columns() + 2 * model.key_columns()});
    for (Tensor* tensor : {&out_, &dout_}) *tensor = make({batch, tokens, model.query_columns()});
    for (Tensor* tensor : {&logsumexp_, &row_dot_})
      *tensor = make({batch, model.num_heads, tokens});
  }

  void forward() { functions_.forward(stream_, out_, logsumexp_, qkv_, kMask); }
  void backward() {
    functions_.backward(stream_, dqkv_, row_dot_, dout_, out_, logsumexp_, qkv_, kMask);
  }

 private:
  static constexpr AttentionMask kMask = AttentionMask::causal;
  Stream& stream_;
  ContextShare share_;
  ContextParallel functions_;
  Tensor qkv_, dqkv_, out_, dout_, logsumexp_, row_dot_;
};

}  // namespace

void compare_attention(Ground& ground, const std::vector<std::string>&) {
  RunConfig config;
  config.model = find_preset(ground.options.model).config;
  config.model.sequence_length = ground.options.tokens;
  config.global_batch_size = config.micro_batch_size = ground.options.batch;
  const size_t rank = ground.ranks().rank();
  const ProcessGrid grid = {.context_size = ground.ranks().size(), .rank = rank};
  GridGroups groups(ground.ranks(), grid);
  const RankContext shared = {grid, ground.ranks(), &groups, ground.job.registered()};
  const RankContext single = {ProcessGrid{}, ground.ranks(), nullptr, ground.job.registered()};
  Attention alone(ground.context(config, &single), {});
  Attention zigzag(ground.context(config, &shared), {.slices = Slicing::zigzag});
  Attention contiguous(ground.context(config, &shared), {.slices = Slicing::contiguous});
  Attention ulysses(ground.context(config, &shared), {.attention = ContextFlags::Method::ulysses});
  const std::vector<std::pair<std::string, Attention*>> ways = {{"one rank", &alone},
                                                                {"ring, zigzag", &zigzag},
                                                                {"ring, contiguous", &contiguous},
                                                                {"ulysses", &ulysses}};
  for (const auto& [name, has_forward, has_backward] :
       {std::tuple("forward", true, false), {"backward", false, true}, {"both", true, true}}) {
    ground.say(concat("attention of one layer, ", name, "\n"));
    std::vector<Contestant> contestants;
    for (const auto& [way, attention] : ways) {
      contestants.push_back({way, [=, &alone, attention = attention] {
                               if (attention == &alone && rank != 0) return;  // its core is idle
                               if (has_forward) attention->forward();
                               if (has_backward) attention->backward();
                             }});
    }
    take_turns(ground, contestants);
  }
}

}  // namespace ladder
