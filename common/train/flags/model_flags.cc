#include "common/train/flags/model_flags.h"

#include "common/io/path.h"
#include "common/model/published_config.h"
#include "common/train/flags/inputs.h"
#include "common/train/flags/validators.h"

namespace ladder {

void ModelFlags::add_to(CLI::App& app, RunConfig& config) {
  const auto add = [&](const char* name, auto& value, const char* text) {
    return app.add_option(name, value, text)->group("Model");
  };
  preset_ = add("--model", config.model_name,
                "Preset: nano, tiny, gpt2, gpt2-medium, gpt2-large, gpt2-xl, 70b, gpt3-175b [that "
                "of --init's folder, or tiny]");
  add("--layers", layers_, "Transformer blocks [preset]")->check(whole(1, 10'000));
  add("--heads", heads_, "Attention heads [preset]")->check(whole(1, 10'000));
  add("--hidden", hidden_, "Hidden size, a multiple of the heads [preset]")
      ->check(whole(1, 1'000'000));
  add("--ffn", ffn_, "Elements of an MLP's inner layer [4 times the hidden size]")
      ->check(whole(1, 10'000'000));
  app.add_flag("--untied", untied_,
               "The classifier has a weight of its own, not the token embedding's")
      ->group("Model");
  add("--vocab", vocab_, "Vocabulary size [preset]")->check(whole(1, 100'000'000));
  add("--sequence-length", sequence_length_, "Tokens in a sequence [preset]")
      ->check(whole(1, 10'000'000));
  add("--init", config.init,
      "Start from the weights in this safetensors file, dump, or folder of transformers, whose "
      "config.json has the sizes")
      ->check(path());
}

namespace {

bool have_same_blocks(const Gpt2Config& a, const Gpt2Config& b) {
  return a.num_layers == b.num_layers && a.num_heads == b.num_heads && a.hidden == b.hidden;
}

// Returns the preset with the blocks of this model, or the largest one that is not wider.
const Gpt2Preset& preset_like(const Gpt2Config& model) {
  const Gpt2Preset* found = &kGpt2Presets[0];
  for (const Gpt2Preset& preset : kGpt2Presets) {
    if (have_same_blocks(preset.config, model)) return preset;
    if (preset.config.hidden <= model.hidden) found = &preset;
  }
  return *found;
}

}  // namespace

const Gpt2Preset& ModelFlags::resolve(RunConfig& config) const {
  const Gpt2Preset* preset = &find_preset(config.model_name);
  Gpt2Config sizes = preset->config;
  const std::string file = published_config_of(config);
  if (!file.empty() && preset_->count() == 0) {
    sizes = named_by("--init", [&] { return read_published_config(file); });
    if (sizes.ffn == 4 * sizes.hidden) sizes.ffn = 0;
    preset = &preset_like(sizes);
    config.model_name = have_same_blocks(preset->config, sizes) ? preset->name : "of --init";
  }
  config.model = {.num_layers = layers_.value_or(sizes.num_layers),
                  .num_heads = heads_.value_or(sizes.num_heads),
                  .hidden = hidden_.value_or(sizes.hidden),
                  .vocab_size = vocab_.value_or(sizes.vocab_size),
                  .sequence_length = sequence_length_.value_or(sizes.sequence_length),
                  .ffn = ffn_ > 0 ? ffn_ : sizes.ffn,
                  .untied = untied_ || sizes.untied};
  check_config(config.model);
  if (!file.empty() && preset_->count() > 0) {
    named_by(concat("--model ", config.model_name, ": --init").c_str(),
             [&] { require_same_model(file, read_published_config(file), config.model); });
  }
  return *preset;
}

}  // namespace ladder
