// Gives a model its first values: random ones, or those of a file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/io/safetensors_files.h"
#include "common/model/layout.h"
#include "kernels/runtime/stream.h"

namespace ladder {

// Gives elements [first, first + n) of the flat buffer their initial values; `span` (n) has just
// these elements. Each value is a function of the seed, the tensor's name and the element's index
// in the tensor, so every rank can make any shard. Padding keeps its values. Asynchronous on the
// stream.
void initialize_parameters(Stream& stream, const Layout& layout, uint64_t seed, size_t first,
                           TensorView span);
// Does the same with elements [first, first + n) of what is held of one parameter.
void initialize_parameter(Stream& stream, const Parameter& parameter, uint64_t seed, size_t first,
                          TensorView elements);

// Returns what a file with every tensor of the model declares, or with those that are wanted: in
// the order of the description, in `dtype`, each under its published name with `prefix` before it.
std::vector<SafetensorsWriter::Tensor> tensors_of(
    const ModelDescription& model, DType dtype, const std::string& prefix = "",
    const std::function<bool(const ParameterSpec&)>& is_wanted = {});

// WeightsFile has a model's weights in fp32, fp64, bf16 or fp16, in one safetensors file or in a
// folder with several (SafetensorsFiles). They may have the published names, with or without the
// prefix `transformer.` (GPT-2) or `model.` (Llama), or the file may be a dump, whose parameters
// have the prefix `param.`. Constants that older files have (`attn.bias`, `attn.masked_bias`,
// `rotary_emb.inv_freq`) and the other tensors of a dump are ignored. `lm_head.weight` of a tied
// model may be there if it equals the table of token embeddings. The file may have more positions
// than the model: then only the first rows of that table are read.
class WeightsFile {
 public:
  // Opens the file, or the files of the folder. Throws a UserError that names --init unless they
  // have every parameter of the layout in its full shape, and nothing else. Adapters (lora.h) are
  // all there, or none. A classification head may be missing, and beside it there may be the weight
  // whose place it takes. REQUIRES: the layout of a whole model.
  WeightsFile(const std::string& path, const Layout& layout)
      : WeightsFile(path, layout, "--init") {}
  // Opens the adapters in a folder of peft (adapter_config.h), which are all it has. Throws a
  // UserError that names --init-adapter unless it has every adapter of the layout in its full
  // shape, and nothing else.
  static WeightsFile of_adapters(const std::string& folder, const Layout& layout);

  // Returns whether the file has the parameter. Adapters and a head may be missing, or all
  // but adapters.
  bool has(const Parameter& parameter) const { return find(parameter.name) != nullptr; }

  // Reads a whole parameter into `destination`, which is host memory with the parameter's full
  // shape, and converts it to the destination's dtype. If a value is NaN or infinite, in the file
  // or after the conversion, it throws a UserError that names --init, tensor, element and value.
  void read(const Parameter& parameter, TensorView destination) const;
  // Throws the same UserError if read() of any parameter that the file has into `dtype` would throw
  // one. It reads the whole file.
  void check_values(const Layout& layout, DType dtype) const;

 private:
  WeightsFile(const std::string& path, const Layout& layout, const char* flag);
  bool has_only_adapters() const;
  // Throws a UserError that names the flag and the file. `what` begins with the tensor's name.
  [[noreturn]] void refuse(const std::string& what) const;
  [[noreturn]] void refuse_element(const SafetensorsEntry& entry, size_t index, DType dtype) const;
  // Returns the tensor with this name, with any prefix, or nullptr if there is none.
  const SafetensorsEntry* find(const std::string& name) const;
  void read_part(const SafetensorsEntry& entry, size_t first, TensorView destination) const;
  void check_tensor(const Parameter& parameter, const Layout& layout) const;
  void check_extra_tensors(const Layout& layout) const;
  void check_tied_head(const Layout& layout) const;

  const char* flag_;
  std::string path_;
  SafetensorsFiles reader_;
};

}  // namespace ladder
