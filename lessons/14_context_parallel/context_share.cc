#include "lessons/14_context_parallel/context_share.h"

#include <numeric>

#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"

namespace ladder {

void ContextFlags::add_to(FlagTable& flags, const char* default_size) {
  flags.add("--context-parallel-size", size,
            concat("Ranks that share each sequence [", default_size, "]"), whole(1, 1'000'000),
            {.compared = ComparedBy::layout});
  const auto set_slices = [this](const std::string& name) {
    slices = name == "zigzag" ? Slicing::zigzag : Slicing::contiguous;
  };
  flags.add_function("--slices", set_slices,
                     "Of a rank: contiguous (one slice) or zigzag (an early and a "
                     "late one) [zigzag]",
                     CLI::IsMember({"contiguous", "zigzag"}).description(""));
}

void ContextFlags::add_attention_to(FlagTable& flags) {
  const auto set_attention = [this](const std::string& name) {
    attention = name == "ring" ? Method::ring : Method::ulysses;
  };
  flags.add_function(
      "--attention", set_attention,
      "How attention sees other ranks' tokens: ring or ulysses (all tokens of some heads, with "
      "contiguous slices unless --slices says otherwise) [ring]",
      CLI::IsMember({"ring", "ulysses"}).description(""));
}

SlicePlan ContextFlags::plan(const RunConfig& config, const ProcessGrid& grid) const {
  // Those of k and v divide those of q.
  const size_t heads = config.model.key_value_heads_of(grid.tensor_size);
  const bool is_grouped = config.model.num_key_value_heads() < config.model.num_heads;
  if (attention == Method::ulysses && heads % grid.context_size != 0) {
    throw UserError(concat(
        "--attention ulysses: --context-parallel-size ", grid.context_size,
        " does not divide a rank's ", counted(heads, is_grouped ? "key-value head" : "head"), "; ",
        std::gcd(grid.world_size(), heads), " would do, and --attention ring takes any size"));
  }
  return SlicePlan(slicing(), config.model.sequence_length, grid.context_size);
}

ContextShare::ContextShare(const TrainerContext& context, const ContextFlags& flags)
    : plan_(flags.plan(context.config, context.ranks->grid)),
      rank_(context.ranks->grid.group_rank(Axis::context)) {
  if (plan_.num_ranks() == 1) return;
  Communicator& ranks = context.ranks->on(Axis::context);
  if (flags.attention == ContextFlags::Method::ring) {
    ring_ = std::make_unique<RingAttention>(context, plan_, ranks);
    return;
  }
  const ModelConfig& model = context.config.model;
  const size_t num_slices = context.ranks->grid.tensor_size;
  ulysses_ = std::make_unique<UlyssesAttention>(
      context, plan_, ranks,
      UlyssesAttention::Heads{model.num_heads / num_slices, model.key_value_heads_of(num_slices),
                              model.head_columns()});
}

SequenceSlice ContextShare::part() const {
  if (plan_.num_ranks() == 1) return {};
  return {.positions = plan_.positions(rank_), .most_tokens = plan_.most_tokens()};
}

ContextParallel ContextShare::attention() {
  if (ring_) return ring_->functions();
  return ulysses_ ? ulysses_->functions() : ContextParallel();
}

}  // namespace ladder
