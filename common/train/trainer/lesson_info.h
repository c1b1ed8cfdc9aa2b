// The name and description of a lesson, the dtypes it trains in, and its ranks.
#pragma once

namespace ladder {

// The dtypes that a lesson trains in.
enum class Precisions {
  full,  // fp32 and fp64
  bf16,  // these and bf16
  all    // these and fp16, which needs a loss scale
};

// Whether a lesson can update the model with Muon, and whether it does unless it is told to use
// AdamW.
enum class MuonUse { never, on_request, by_default };

struct LessonInfo {
  const char* name;         // "01_single_gpu"
  const char* description;  // one line
  Precisions precisions = Precisions::bf16;
  bool has_schedule = false;      // whether its ranks follow a list of actions that --draw can draw
  bool is_distributed = true;     // whether it runs on several ranks
  bool has_experts = false;       // whether it trains models with experts
  MuonUse muon = MuonUse::never;  // whether --optimizer can be muon
};

}  // namespace ladder
