// The flags that say which model is trained.
#pragma once

#include <cstddef>
#include <optional>

#include "common/io/cli11.h"
#include "common/train/trainer/config.h"

namespace ladder {

class ModelFlags {
 public:
  // Adds the flags. `config`, which must live until the app has parsed, gets those that are texts.
  void add_to(CLI::App& app, RunConfig& config);

  // Sets the sizes of config.model. Each size comes from its flag if given. Otherwise it comes from
  // the preset if --model is given, else from the config.json in the folder of --init, else from
  // the default preset. Returns the preset whose other defaults suit the model. Throws UserError if
  // a file is damaged or describes another model than the flags, or if sizes do not go together.
  const Gpt2Preset& resolve(RunConfig& config) const;

 private:
  const CLI::Option* preset_ = nullptr;
  std::optional<size_t> layers_, heads_, hidden_, vocab_, sequence_length_;
  size_t ffn_ = 0;
  bool untied_ = false;
};

}  // namespace ladder
