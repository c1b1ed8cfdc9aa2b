#include "common/train/flags/model_flags.h"

#include "common/data/task.h"
#include "common/io/path.h"
#include "common/io/printable.h"
#include "common/io/text.h"
#include "common/model/adapter_config.h"
#include "common/model/family.h"
#include "common/model/lora.h"
#include "common/model/published_config.h"
#include "common/train/flags/flag_table.h"
#include "common/train/flags/inputs.h"
#include "common/train/flags/validators.h"

namespace ladder {

namespace {

// Adds the flag of one of the family's choices.
CLI::Option* add_choice(FlagTable& flags, const FamilyChoice& choice, std::string& value) {
  const auto fault = [choice](const std::string& text) {
    ModelConfig scratch;
    return choice.set(scratch, text) ? ""
                                     : concat("'", one_line(text), "' is not ", choice.expected);
  };
  const auto in_run = [&choice](const RunConfig& config) {
    for (const auto& [each, chosen_value] : chosen(config.model)) {
      if (each == &choice) return chosen_value;
    }
    return std::string();
  };
  return flags.add(choice.flag(), value, choice.help, CLI::Validator(fault, ""),
                   {.in_run = in_run});
}

}  // namespace

std::vector<CLI::Option*> SizeFlags::add_to(FlagTable& flags) {
  std::vector<CLI::Option*> options;
  const auto add = [&](const char* name, auto& value, const char* text, int64_t most,
                       const ValueInRun& in_run) {
    options.push_back(flags.add(name, value, text, whole(1, most), {.in_run = in_run}));
  };
  add("--layers", layers_, "Transformer blocks [preset]", 10'000, in_run(&ModelConfig::num_layers));
  add("--heads", heads_, "Attention heads [preset]", 10'000, in_run(&ModelConfig::num_heads));
  add("--hidden", hidden_, "Hidden size, a multiple of the heads [preset]", 1'000'000,
      in_run(&ModelConfig::hidden));
  add("--ffn", ffn_, "Elements of an MLP's inner layer [preset, or 4 times the hidden size]",
      10'000'000,
      [](const RunConfig& c) { return c.model.ffn > 0 ? concat(c.model.ffn) : std::string(); });
  options.push_back(flags.add(
      "--untied", untied_, "The classifier has a weight of its own, not the token embedding's",
      {.in_run = [](const RunConfig& c) { return std::string(c.model.untied ? "true" : ""); }}));
  add("--vocab", vocab_, "Vocabulary size [preset]", 100'000'000, in_run(&ModelConfig::vocab_size));
  add("--sequence-length", sequence_length_, "Tokens in a sequence [preset]", 10'000'000,
      in_run(&ModelConfig::sequence_length));
  choices_.resize(family_choices().size());
  for (size_t i = 0; i < choices_.size(); ++i) {
    options.push_back(add_choice(flags, family_choices()[i], choices_[i]));
  }
  return options;
}

ModelConfig SizeFlags::applied_to(ModelConfig model) const {
  model.num_layers = layers_.value_or(model.num_layers);
  model.num_heads = heads_.value_or(model.num_heads);
  model.hidden = hidden_.value_or(model.hidden);
  model.vocab_size = vocab_.value_or(model.vocab_size);
  model.sequence_length = sequence_length_.value_or(model.sequence_length);
  model.ffn = ffn_.value_or(model.ffn);
  model.untied = untied_ || model.untied;
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (!choices_[i].empty()) family_choices()[i].set(model, choices_[i]);
  }
  return model;
}

void ModelFlags::add_to(FlagTable& flags, RunConfig& config) {
  flags.heading("Model", ComparedBy::model);
  std::string names;
  for (const ModelPreset& preset : presets()) {
    names += concat(names.empty() ? "" : ", ", preset.name);
  }
  // A run that resumes does not read what --init names, and says so.
  const FlagTraits first_weights = {.compared = ComparedBy::nothing, .file = FileUse::read};
  preset_ = flags.add("--model", config.model_name,
                      concat("Preset: ", names, " [that of --init's folder, or tiny]"));
  sizes_.add_to(flags);
  flags.add("--init", config.init,
            "Start from the weights in this safetensors file, dump, or folder of transformers, "
            "whose config.json has the sizes",
            first_weights);
  flags.add("--init-adapter", config.init_adapter,
            "With --init: start from the adapters in this folder of Hugging Face's peft, whose "
            "adapter_config.json has the values of --lora-*",
            first_weights);
  flags.add("--train", train_,
            "What is trained, the rest is frozen: all, bias (the biases of a GPT-2), last-K (the "
            "last K blocks and the final norm), lora (low-rank adapters of linear layers, which "
            "are added to the model), or head (the classification head alone) [all]");
  flags.add("--objective", objective_,
            "What the model learns: causal = each next token, or masked = tokens that are hidden, "
            "from those before and after them [causal]",
            CLI::IsMember({"causal", "masked"}));
  lora_.add_to(flags);
  flags
      .add("--labels", labels_,
           "With commas: what a classification head tells apart, which takes the place of the next "
           "token; without --task they are books of the built-in text [none; with --train head "
           "Ge,Psa,Eze,Luke]")
      ->join(',');  // a file of flags splits at commas
  flags.heading("Training");
  flags.add("--task", config.task,
            "File of examples, one a line, in place of --data: prompt<TAB>answer, of which the "
            "answer is learned, or with --labels label<TAB>text",
            {.file = FileUse::read});
}

void LoraFlags::add_to(FlagTable& flags) {
  const auto add = [&](const char* name, auto& value, const char* text) {
    return flags_.emplace_back(flags.add(name, value, text));
  };
  add("--lora-rank", rank_, "Rank r of the adapters of --train lora [8]")
      ->check(whole(1, 1'000'000));
  add("--lora-alpha", alpha_, "Their output is multiplied with alpha / r [16]")
      ->check(real(0, 1e6, true));
  add("--lora-targets", targets_,
      "The layers that have one, with commas: qkv, proj; of a GPT-2 fc, mlp-proj; of a Llama gate, "
      "up, down; or published names [qkv]")
      ->join(',');  // a file of flags splits at commas
  add("--lora-scale", scale_, "standard = alpha / r, or rslora = alpha / sqrt(r) [standard]")
      ->check(CLI::IsMember({"standard", "rslora"}));
}

ModelConfig LoraFlags::applied_to(ModelConfig model, const std::string& train,
                                  const std::string& init_adapter) const {
  model.lora.reset();
  if (train != kTrainLora) {
    if (!init_adapter.empty()) throw UserError("--init-adapter: goes with --train lora");
    for (const CLI::Option* flag : flags_) {
      if (flag->count() == 0) continue;
      throw UserError(concat(flag->get_name(), ": goes with --train lora"));
    }
    return model;
  }
  LoraConfig usual;
  if (init_adapter.empty()) {
    usual.targets = lora_targets(model, targets_.empty() ? "qkv" : targets_);
  } else {
    usual = named_by("--init-adapter", [&] { return read_adapter_config(init_adapter, model); });
  }
  LoraConfig lora = {.rank = rank_.value_or(usual.rank),
                     .alpha = alpha_.value_or(usual.alpha),
                     .scale = usual.scale,
                     .targets = targets_.empty() ? usual.targets : lora_targets(model, targets_)};
  if (!scale_.empty()) {
    lora.scale = scale_ == "rslora" ? LoraScale::rslora : LoraScale::standard;
  }
  if (!init_adapter.empty() && lora != usual) {
    throw UserError(concat("--init-adapter ", init_adapter, ": has adapters of ", lora_text(usual),
                           ", and the flags --lora-* ask for ", lora_text(lora),
                           "; leave them out"));
  }
  model.lora = lora;
  return model;
}

namespace {

bool have_same_blocks(const ModelConfig& a, ModelConfig b) {
  b.vocab_size = a.vocab_size;
  b.sequence_length = a.sequence_length;
  b.untied = a.untied;
  b.labels = a.labels;
  return a.with_all_sizes() == b.with_all_sizes();
}

// Returns the preset with the blocks of this model, or the largest one that is not wider.
const ModelPreset& preset_like(const ModelConfig& model) {
  const ModelPreset* found = &presets()[0];
  for (const ModelPreset& preset : presets()) {
    if (have_same_blocks(preset.config, model)) return preset;
    const bool is_family = preset.config.is_gpt2() == model.is_gpt2();
    if (is_family && preset.config.hidden <= model.hidden) found = &preset;
  }
  return *found;
}

}  // namespace

std::vector<std::string> ModelFlags::labels_of(const RunConfig& config) const {
  std::vector<std::string> labels;
  if (!labels_.empty()) {
    labels = items_of(labels_);
  } else if (train_ == kTrainHead && config.task.empty()) {
    labels = kVerseBooks;
  }
  if ((!config.task.empty() || !labels.empty()) && !config.data.empty()) {
    throw UserError(concat("--data: ", labels.empty() ? "--task" : "a classification head",
                           " has examples to learn from; leave one of the two out"));
  }
  if (!labels.empty() && config.round_logits) {
    throw UserError("--round-logits: a head's logits are few, and its accuracy needs them whole");
  }
  return labels;
}

const ModelPreset& ModelFlags::resolve(RunConfig& config) const {
  const ModelPreset* preset = &find_preset(config.model_name);
  ModelConfig sizes = preset->config;
  const std::string file = published_config_of(config);
  if (!file.empty() && preset_->count() == 0) {
    sizes = named_by("--init", [&] { return read_published_config(file); });
    preset = &preset_like(sizes);
    config.model_name = have_same_blocks(preset->config, sizes) ? preset->name : "of --init";
  }
  const std::vector<std::string> labels = labels_of(config);
  if (!labels.empty()) sizes.untied = false;  // it would be the next token's
  config.model = sizes_.applied_to(sizes);
  config.model.labels = labels;
  check_config(config.model);
  if (!file.empty() && preset_->count() > 0) {
    named_by(concat("--model ", config.model_name, ": --init").c_str(), [&] {
      ModelConfig known = config.model;  // all but the experts, which check_weights() compares
      known.experts = read_published_config(file).experts;
      require_same_model(file, known);
    });
  }
  if (!config.init_adapter.empty() && config.init.empty()) {
    throw UserError(
        "--init-adapter: goes with --init, the weights that its adapters were made for");
  }
  config.model = lora_.applied_to(config.model, train_, config.init_adapter);
  config.model.frozen = frozen_names(config.model, train_);
  config.model.objective = objective_ == "masked" ? Objective::masked : Objective::causal;
  if (config.model.is_masked() && config.has_examples()) {
    throw UserError(concat("--objective masked: ", config.task.empty() ? "--labels" : "--task",
                           " says what is learned, and attention would read its padding; leave "
                           "one of the two out"));
  }
  return *preset;
}

}  // namespace ladder
