// Low-rank adapters become a part of the weights that they were trained beside.
#pragma once

#include <string>

#include "kernels/runtime/stream.h"
#include "kernels/runtime/tensor.h"

namespace ladder {

// weight += factor B A, so that the layer without its adapter gives what it gave with it.
//   a (r, in), b (out, r) in
//   weight (out, in) in/out if `out_first`, as the Llama family stores it; else (in, out)
// All have one dtype and are on the CPU. Asynchronous on the stream; `a` is overwritten.
void merge_adapter(Stream& stream, TensorView weight, TensorView a, ConstTensorView b,
                   double factor, bool out_first);

// Writes the weights in the folder `base` (config.json and safetensors, as --export or Hugging
// Face's transformers writes them), with the adapters in the folder `adapters` added to them, to
// the new folder `out`, as --export does: in fp32, with the tokenizer of `base`. Products and sums
// are fp64. It holds one tensor at a time. Throws UserError if a folder cannot be read, the
// adapters are those of another model, or `out` cannot be written.
void merge(const std::string& base, const std::string& adapters, const std::string& out);

}  // namespace ladder
