// Writes a trained model as a folder that Hugging Face's transformers opens.
#pragma once

#include <functional>
#include <string>

#include "common/data/tokenizer.h"
#include "common/io/partial_folder.h"
#include "common/model/config.h"
#include "common/model/slices.h"

namespace ladder {

// ExportFolder is the folder of --export. It has
//   model.safetensors    the parameters in F32 under their published names, without the tied head
//   config.json, generation_config.json    what transformers must know: which of its models it is
//   tokenizer.json, tokenizer_config.json    the tokenizer: that of the vocabulary, or if tokens
//                        are bytes one that says so
// Of a model with adapters (ModelConfig::lora) it has the adapters alone, in the two files of
// Hugging Face's peft (adapter_config.h). It appears as a whole, when write() is done
// (PartialFolder).
class ExportFolder {
 public:
  // Makes the partial folder. Throws a UserError that names --export if the folder cannot be made,
  // if it is there and not empty, if it lies in a checkpoint, if transformers has no such model, or
  // if the disk has too little room for it. `base` says which weights the model has begun with, for
  // those who find only its adapters.
  ExportFolder(const std::string& path, const ModelConfig& config, const std::string& base = "");

  // Writes everything. `visit` gives every parameter of the model to a sink, in the order of the
  // model's description, in fp32 or fp64. Throws an Error if the disk is full, or if a parameter is
  // not a finite number in fp32; then there is no folder. REQUIRES: called once.
  void write(const Vocabulary& vocabulary, const std::function<void(const TensorSink&)>& visit);

 private:
  void write_text(const std::string& name, const std::string& text) const;
  void write_weights(const std::function<void(const TensorSink&)>& visit) const;

  ModelConfig config_;
  std::string base_;
  PartialFolder folder_;
};

// Says what has been written, and what those who use it must do without.
const char* written_text(const ModelConfig& config, const Vocabulary& vocabulary);

}  // namespace ladder
