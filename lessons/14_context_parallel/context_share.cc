#include "lessons/14_context_parallel/context_share.h"

#include "common/train/validators.h"

namespace ladder {

void ContextFlags::add_to(CLI::App& app, const char* group, const char* default_size) {
  app.add_option("--context-parallel-size", size,
                 concat("Ranks that share each sequence [", default_size, "]"))
      ->check(whole(1, 1'000'000))
      ->group(group);
  const auto set_slices = [this](const std::string& name) {
    slices = name == "zigzag" ? Slicing::zigzag : Slicing::contiguous;
  };
  app.add_option_function<std::string>(
         "--slices", set_slices,
         "Of a rank: contiguous (one slice) or zigzag (an early and a "
         "late one) [zigzag]")
      ->check(CLI::IsMember({"contiguous", "zigzag"}).description(""))
      ->group(group);
}

ContextShare::ContextShare(const TrainerContext& context, const ContextFlags& flags)
    : plan_(flags.plan(context.config, context.ranks->grid)),
      rank_(context.ranks->grid.place(Axis::context)) {
  if (plan_.num_ranks() == 1) return;
  ring_ = std::make_unique<RingAttention>(context, plan_, context.ranks->on(Axis::context));
}

SequencePart ContextShare::part() const {
  if (ring_ == nullptr) return {};
  return {.positions = plan_.positions(rank_), .most_tokens = plan_.most_tokens()};
}

}  // namespace ladder
