// The parameters of a checkpoint as a model for others.
#pragma once

#include <string>

namespace ladder {

// Writes the parameters of the checkpoint at `from` to the folder `out`, as --export does
// (common/train/run/export.h). The checkpoint's settings say whether tokens are bytes, which have a
// tokenizer, and otherwise which token ends a text. It holds one tensor at a time. Throws UserError
// if the checkpoint is damaged or `out` cannot be written.
void export_weights(const std::string& from, const std::string& out);

}  // namespace ladder
