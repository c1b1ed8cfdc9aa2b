// The flags that say which model is trained.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/io/cli11.h"
#include "common/model/train_choice.h"
#include "common/train/trainer/config.h"

namespace ladder {

// The flags of a model's sizes and of its family's choices (common/model/family.h).
class SizeFlags {
 public:
  // Adds the flags, and returns them. This object must live until the app has parsed.
  std::vector<CLI::Option*> add_to(FlagTable& flags);
  // Returns the model with what the flags say instead.
  ModelConfig applied_to(ModelConfig model) const;

 private:
  std::optional<size_t> layers_, heads_, hidden_, ffn_, vocab_, sequence_length_;
  bool untied_ = false;
  std::vector<std::string> choices_;  // as in family_choices(); empty if not given
};

// The flags of low-rank adapters, which go with --train lora.
class LoraFlags {
 public:
  void add_to(FlagTable& flags);
  // Returns the model with the adapters that the flags describe, or the folder of --init-adapter
  // (unless it is empty), if `train` is "lora", or as it is. Throws a UserError that names a flag
  // which is given without, asks for what the model lacks, or for other adapters than the folder.
  ModelConfig applied_to(ModelConfig model, const std::string& train,
                         const std::string& init_adapter) const;

 private:
  std::vector<CLI::Option*> flags_;
  std::optional<size_t> rank_;
  std::optional<double> alpha_;
  std::string targets_, scale_;  // empty: not given
};

class ModelFlags {
 public:
  // Adds the flags. `config`, which must live until the app has parsed, gets those that are texts.
  void add_to(FlagTable& flags, RunConfig& config);

  // Sets the sizes of config.model. Each size comes from its flag if given. Otherwise it comes from
  // the preset if --model is given, else from the config.json in the folder of --init, else from
  // the default preset. Adds the head of --labels, and freezes what --train says. Returns the
  // preset whose other defaults suit the model. Throws UserError if a file is damaged or describes
  // another model than the flags, if sizes do not go together, or if the model cannot be trained as
  // --train says.
  const ModelPreset& resolve(RunConfig& config) const;

 private:
  const CLI::Option* preset_ = nullptr;
  SizeFlags sizes_;
  std::string train_ = kTrainAll, objective_;
  LoraFlags lora_;
  std::string labels_;  // as they are given

  std::vector<std::string> labels_of(const RunConfig& config) const;
};

}  // namespace ladder
