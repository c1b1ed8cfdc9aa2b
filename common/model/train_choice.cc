#include "common/model/train_choice.h"

#include <algorithm>
#include <charconv>

#include "common/io/printable.h"
#include "common/model/description.h"
#include "common/model/lora.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr std::string_view kBias = "bias", kLast = "last-";

ModelDescription describe_unfrozen(ModelConfig model) {
  model.frozen.clear();
  return describe(model);
}

std::vector<std::string> all_but_biases(const ModelDescription& model) {
  std::vector<std::string> names;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      const bool is_trained = parameter.name.ends_with(".bias") || unit.name == kHeadUnit;
      if (!is_trained) names.push_back(parameter.name);
    }
  }
  return names;
}

std::vector<std::string> all_but_head(const ModelDescription& model) {
  std::vector<std::string> names;
  for (const UnitSpec& unit : model.units) {
    if (unit.name != kHeadUnit) names.push_back(unit.name);
  }
  return names;
}

std::vector<std::string> all_but_last(const ModelDescription& model, size_t count) {
  const size_t first = model.config.num_layers - count;  // the first block that is trained
  const bool has_head = !model.config.labels.empty();
  std::vector<bool> is_trained(model.units.size(), false);
  size_t blocks = 0;
  for (const Operation& operation : model.operations) {
    blocks += operation.kind == OperationKind::block ? 1 : 0;
    const bool is_classifier = operation.kind == OperationKind::classifier;
    is_trained[operation.unit] = blocks > first && (!is_classifier || has_head);
  }
  std::vector<std::string> names;
  for (size_t unit = 0; unit < model.units.size(); ++unit) {
    if (!is_trained[unit]) names.push_back(model.units[unit].name);
  }
  return names;
}

// A head is trained, too. A unit without adapters is named as a whole.
std::vector<std::string> all_but_adapters(const ModelDescription& model) {
  const auto is_trained = [](const ParameterSpec& parameter) { return is_adapter(parameter.name); };
  std::vector<std::string> names;
  for (const UnitSpec& unit : model.units) {
    if (unit.name == kHeadUnit) continue;
    if (std::ranges::none_of(unit.parameters, is_trained)) {
      names.push_back(unit.name);
      continue;
    }
    for (const ParameterSpec& parameter : unit.parameters) {
      if (!is_trained(parameter)) names.push_back(parameter.name);
    }
  }
  return names;
}

// Returns K of "last-K", without signs and leading zeros; 0 if the choice is not so written.
size_t last_of(const std::string& choice) {
  if (!choice.starts_with(kLast)) return 0;
  const char* const begin = choice.data() + kLast.size();
  const char* const end = choice.data() + choice.size();
  size_t count = 0;
  const auto [stop, error] = std::from_chars(begin, end, count);
  return begin < end && *begin != '0' && stop == end && error == std::errc() ? count : 0;
}

}  // namespace

std::vector<std::string> frozen_names(const ModelConfig& model, const std::string& choice) {
  const auto refuse = [&](const auto&... why) {
    throw UserError(concat("--train ", one_line(choice), ": ", why...));
  };
  if (choice == kTrainAll) return {};
  if (choice == kTrainHead) {
    if (model.labels.empty()) refuse("the model has no head; --labels gives it one");
    return all_but_head(describe_unfrozen(model));
  }
  if (choice == kBias) {
    if (!model.is_gpt2()) {
      refuse("of the two families only GPT-2's has biases in all linear layers and norms; take ",
             kLast, "K");
    }
    return all_but_biases(describe_unfrozen(model));
  }
  if (choice == kTrainLora) {
    check(model.lora.has_value(), "--train lora: the model has no adapters");
    return all_but_adapters(describe_unfrozen(model));
  }
  const size_t count = last_of(choice), layers = model.num_layers;
  if (choice.starts_with(kLast) && (count == 0 || count > layers)) {
    refuse("the model has ", counted(layers, "block"), "; take ", kLast, "1",
           layers > 1 ? concat(" to ", kLast, layers) : "");
  }
  if (count == 0)
    refuse("expected ", kTrainAll, ", ", kBias, ", ", kTrainHead, ", ", kTrainLora, " or ", kLast,
           "K, the last K blocks");
  return all_but_last(describe_unfrozen(model), count);
}

std::string train_choice(const ModelConfig& model) {
  if (model.frozen.empty()) return kTrainAll;
  const ModelDescription whole = describe_unfrozen(model);
  if (model.lora) return model.frozen == all_but_adapters(whole) ? kTrainLora : "";
  if (!model.labels.empty() && model.frozen == all_but_head(whole)) return kTrainHead;
  if (model.is_gpt2() && model.frozen == all_but_biases(whole)) return std::string(kBias);
  for (size_t count = 1; count <= model.num_layers; ++count) {
    if (model.frozen == all_but_last(whole, count)) return concat(kLast, count);
  }
  return "";
}

std::string train_text(const ModelConfig& model) {
  const std::string choice = train_choice(model);
  if (choice == kTrainLora) return concat("--train lora, ", lora_text(*model.lora));
  if (!choice.empty()) return "--train " + choice;
  return "frozen " + listed(model.frozen);
}

}  // namespace ladder
