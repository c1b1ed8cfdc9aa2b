#include "common/train/flags/settings.h"

#include "common/io/text.h"
#include "common/model/family.h"
#include "common/optimizer/rule.h"
#include "common/train/flags/alike.h"
#include "common/train/flags/inputs.h"

namespace ladder {

namespace {

std::map<std::string, ComparedBy, std::less<>> make_flags_without_setting() {
  using enum ComparedBy;
  std::map<std::string, ComparedBy, std::less<>> flags = {
      {"--model", model},
      {"--layers", model},
      {"--heads", model},
      {"--hidden", model},
      {"--ffn", model},
      {"--untied", model},
      {"--train", model},
      {"--lora-rank", model},
      {"--lora-alpha", model},
      {"--lora-targets", model},
      {"--lora-scale", model},
      {"--objective", model},
      {"--labels", model},
      {"--vocab", model},
      {"--sequence-length", model},
      {"--experts", model},
      {"--experts-per-token", model},
      {"--moe-every", model},
      {"--tensor-parallel-size", layout},
      {"--pipeline-parallel-size", layout},
      {"--context-parallel-size", layout},
      {"--init", nothing},  // a run that resumes does not read it, and says so
      {"--init-adapter", nothing},
      {"--evaluate-every", nothing},
      {"--evaluate-batches", nothing},
      {"--sample", nothing},
      {"--prompt", nothing},
      {"--temperature", nothing},
      {"--top-k", nothing},
      {"--tokenizer", nothing},
      {"--dump", nothing},
      {"--metrics", nothing},
      {"--tensorboard", nothing},
      {"--trace", nothing},
      {"--draw", nothing},
      {"--export", nothing},
      {"--peak-flops", nothing},
      {"--checkpoint", nothing},
      {"--checkpoint-every", nothing},
      {"--checkpoint-async", nothing},
      {"--keep", nothing},
      {"--grace", nothing},
      {"--resume", nothing},
      // What backward computes again has the bits that it had before.
      {"--recompute", nothing},
      {"--offload-activations", nothing},
      {"--activation-memory", nothing},
      {"--device-memory", nothing},
      {"--host-memory", nothing},
      {"--network-bandwidth", nothing},
      {"--check-collectives", nothing},
      {"--homes", nothing},
      {"--collective-timeout", nothing},
      {"--no-nccl-split", nothing},
      {"--no-numa", nothing},
      // The virtual device has no state.
      {"--cluster", nothing},
      {"--program", nothing},
      {"--breakdown", nothing},
      {"--fixed-network", nothing},
      {"--ranks", nothing},
      // In lesson 17 they say when ranks end and where they write.
      {"--fail", nothing},
      {"--step-file", nothing},
  };
  for (const FamilyChoice& choice : family_choices()) flags.emplace(choice.flag(), model);
  return flags;
}

}  // namespace

const std::map<std::string, ComparedBy, std::less<>>& flags_without_setting() {
  static const auto flags = make_flags_without_setting();
  return flags;
}

std::map<std::string, std::string> settings_of(const RunConfig& config, const Corpus& corpus) {
  const OptimizerConfig& optimizer = config.optimizer;
  // Defaults of these depend on other flags or on the machine.
  std::map<std::string, std::string> settings = {
      {data_flag(config), identity_of(corpus)},
      {"--global-batch-size", concat(config.global_batch_size)},
      {"--seed", concat(config.seed)},
      {"--steps", concat(optimizer.num_steps)},
      {"--warmup-steps", concat(optimizer.warmup_steps)},
      {"--learning-rate", shortest_text(optimizer.learning_rate)},
      {"--min-learning-rate", shortest_text(optimizer.min_learning_rate)},
      {"--weight-decay", shortest_text(optimizer.weight_decay)},
      {"--beta1", shortest_text(optimizer.beta1)},
      {"--beta2", shortest_text(optimizer.beta2)},
      {"--epsilon", shortest_text(optimizer.epsilon)},
      {"--clip-norm", shortest_text(optimizer.clip_norm)},
      {"--dtype", std::string(name_of(config.dtype))},
      {"--device", std::string(name_of(config.device))}};
  if (optimizer.name != OptimizerConfig().name) {  // checkpoints with AdamW do not name it
    for (const auto& [name, value] : optimizer_settings(optimizer)) settings[name] = value;
  }
  for (const auto& [name, flag] : config.flags) {
    if (flag.is_default || flags_without_setting().contains(name)) continue;
    settings.try_emplace(name, flag.value);
  }
  return settings;
}

}  // namespace ladder
