#include "common/checkpoint/model_json.h"

#include "common/model/description.h"
#include "common/model/family.h"
#include "common/model/train_choice.h"

namespace ladder {
namespace {

constexpr const char *kStandard = "standard", *kRslora = "rslora";  // LoraScale
constexpr const char* kMasked = "masked";                           // Objective::masked

// Returns the members but those of the family, which family_choices() lists. A new member of the
// model does not compile before it is in one of the two lists.
auto sizes_of(const ModelConfig& model) {
  const auto& [layers, heads, hidden, vocab, sequence_length, experts, ffn, untied, labels, frozen,
               lora, objective, key_value_heads, head_size, norm, norm_epsilon, positions,
               rope_theta, rope_scaling, mlp, biases, qk_norm] = model;
  return std::tuple(layers, heads, hidden, vocab, sequence_length, experts, ffn, untied, labels,
                    frozen, lora, objective);
}

Json to_json(const LoraConfig& lora) {
  return {{"rank", lora.rank},
          {"alpha", lora.alpha},
          {"scale", lora.scale == LoraScale::rslora ? kRslora : kStandard},
          {"targets", lora.targets}};
}

LoraConfig parse_lora(const Json& json, const JsonPath& reader) {
  const std::string scale = reader.string(json, "scale");
  if (scale != kRslora && scale != kStandard) {
    reader.refuse("\"scale\": ", one_line(scale), ", expected ", kStandard, " or ", kRslora);
  }
  const Json& alpha = reader.at(json, "alpha");
  if (!alpha.is_number()) reader.refuse("\"alpha\": expected a number");
  return {.rank = reader.number(json, "rank", 1, 1'000'000),
          .alpha = alpha.get<double>(),
          .scale = scale == kRslora ? LoraScale::rslora : LoraScale::standard,
          .targets = reader.strings(json, "targets")};
}

}  // namespace

Json to_json(const ModelConfig& model) {
  const auto& [layers, heads, hidden, vocab, sequence_length, experts, ffn, untied, labels, frozen,
               lora, objective] = sizes_of(model);
  Json json = {{"layers", layers},
               {"heads", heads},
               {"hidden", hidden},
               {"vocab", vocab},
               {"sequence_length", sequence_length}};
  if (ffn > 0) json["ffn"] = ffn;
  if (untied) json["untied"] = true;
  if (!labels.empty()) json["labels"] = labels;
  if (!frozen.empty()) json["frozen"] = frozen;
  if (lora) json["lora"] = to_json(*lora);
  if (objective == Objective::masked) json["objective"] = kMasked;
  for (const auto& [choice, text] : chosen(model)) json[choice->key()] = text;
  if (experts.num_experts == 0) return json;
  json["experts"] = experts.num_experts;
  json["experts_per_token"] = experts.per_token;
  json["experts_every"] = experts.every;
  return json;
}

std::string flags_text(const ModelConfig& model) {
  const auto& [layers, heads, hidden, vocab, sequence_length, experts, ffn, untied, labels, frozen,
               lora, objective] = sizes_of(model);
  std::string text = concat("--layers ", layers, " --heads ", heads, " --hidden ", hidden,
                            " --vocab ", vocab, " --sequence-length ", sequence_length);
  if (ffn > 0) text += concat(" --ffn ", ffn);
  if (untied) text += " --untied";
  if (!labels.empty()) text += concat(" --labels ", listed(labels, ","));
  for (const auto& [choice, value] : chosen(model)) {
    text += concat(" ", choice->flag(), " ", value);
  }
  if (experts.num_experts > 0) {
    text += concat(" --experts ", experts.num_experts, " --experts-per-token ", experts.per_token,
                   " --moe-every ", experts.every);
  }
  if (!frozen.empty()) text += concat(" ", train_text(model));
  if (objective == Objective::masked) text += concat(" --objective ", kMasked);
  return text;
}

namespace {

// Throws UserError if sizes do not go together, or the model freezes what it does not have.
void check_model(const ModelConfig& model, const JsonPath& reader) {
  try {
    check_config(model);
    if (!model.frozen.empty() || model.lora) describe(model);
  } catch (const UserError& error) {
    reader.refuse(one_line(error.what()));
  }
}

}  // namespace

ModelConfig parse_model(const Json& json, const JsonPath& reader) {
  constexpr size_t kMost = 1'000'000'000;
  ModelConfig model = {.num_layers = reader.number(json, "layers", 1, 10'000),
                       .num_heads = reader.number(json, "heads", 1, 10'000),
                       .hidden = reader.number(json, "hidden", 1, 1'000'000),
                       .vocab_size = reader.number(json, "vocab", 1, kMost),
                       .sequence_length = reader.number(json, "sequence_length", 1, kMost)};
  if (json.contains("ffn")) model.ffn = reader.number(json, "ffn", 1, kMost);
  if (json.contains("untied")) {
    if (json["untied"] != true) reader.refuse("\"untied\" is there, and not true");
    model.untied = true;
  }
  if (json.contains("labels")) model.labels = reader.strings(json, "labels");
  if (json.contains("frozen")) model.frozen = reader.strings(json, "frozen");
  if (json.contains("lora")) model.lora = parse_lora(json["lora"], reader.in("\"lora\""));
  if (json.contains("objective")) {
    if (json["objective"] != kMasked) reader.refuse("\"objective\" is there, and not masked");
    model.objective = Objective::masked;
  }
  if (json.contains("experts")) {
    model.experts = {.num_experts = reader.number(json, "experts", 1, kMost),
                     .per_token = reader.number(json, "experts_per_token", 1, kMost),
                     .every = reader.number(json, "experts_every", 1, kMost)};
    if (model.experts.per_token > model.experts.num_experts) {
      reader.refuse("a token goes to more experts than there are");
    }
  }
  for (const FamilyChoice& choice : family_choices()) {
    const std::string key = choice.key();
    if (!json.contains(key)) continue;
    const std::string text = reader.string(json, key.c_str());
    if (choice.set(model, text)) continue;
    reader.refuse(Json(key).dump(), ": ", one_line(text), ", expected ", choice.expected);
  }
  check_model(model, reader);
  return model;
}

}  // namespace ladder
