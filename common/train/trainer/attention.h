// Whose kernels compute attention (--attention-kernel).
#pragma once

#include "common/model/context_parallel.h"
#include "common/model/layout.h"
#include "common/train/trainer/micro_batch.h"

namespace ladder {

// Returns attention by the kernels that the run has chosen, which may allocate workspace on the
// device: `own`, or cuDNN's, which needs all tokens. `layout` is that of all that this rank holds,
// `part` the tokens of each sequence. What the context refers to must outlive the functions.
ContextParallel attention_of(const TrainerContext& context, const Layout& layout,
                             const SequenceSlice& part, const ContextParallel& own);

}  // namespace ladder
