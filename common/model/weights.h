// The values a model starts from: the counter-based initialization, or a file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/io/safetensors.h"
#include "common/model/layout.h"
#include "kernels/runtime/stream.h"

namespace ladder {

// Elements [first, first + span) of the flat buffer get their initial values: each is a function of
// (seed, tensor name, index in the tensor), so every rank can make any shard of it. Padding is left
// as it is. Asynchronous on the stream.
//   span (n) out
void initialize_parameters(Stream& stream, const Layout& layout, uint64_t seed, size_t first,
                           TensorView span);

// A safetensors file with the weights of a GPT-2 in fp32, fp64, bf16 or fp16, under their published
// names, with or without the prefix `transformer.`, or a dump, with the prefix `param.`; the other
// tensors of a dump are ignored. So are masks (`attn.bias`, `attn.masked_bias`); `lm_head.weight`
// may be there if it equals `wte.weight`. The file may have more positions than the model: of
// `wpe.weight` the first rows are read.
class WeightsFile {
 public:
  // UserError, naming --init, unless the file holds every parameter of the layout in its full
  // shape, and nothing else. REQUIRES: the layout of a whole model.
  WeightsFile(const std::string& path, const Layout& layout);

  // `destination` (the parameter's full shape, host memory) = all of it, converted to its dtype.
  // UserError, naming --init, tensor, element and value: a number that is NaN or infinite, in the
  // file or in the destination's dtype.
  void read(const Parameter& parameter, TensorView destination) const;
  // The same UserError if read() of any parameter into this dtype would throw one. Reads the file.
  void check_values(const Layout& layout, DType dtype) const;

 private:
  // Throws UserError about the tensor that `what` begins with.
  [[noreturn]] void refuse(const std::string& what) const;
  [[noreturn]] void refuse_element(const SafetensorsEntry& entry, size_t index, DType dtype) const;
  // The tensor of this name, with any prefix; nullptr if there is none.
  const SafetensorsEntry* find(const std::string& name) const;
  void read_part(const SafetensorsEntry& entry, size_t first, TensorView destination) const;
  void check_tensor(const Parameter& parameter) const;
  void check_extra_tensors(const Layout& layout) const;
  void check_tied_head() const;

  std::string path_;
  SafetensorsReader reader_;
};

}  // namespace ladder
