// The name and description of a lesson, the dtypes it trains in, and its ranks.
#pragma once

namespace ladder {

// The dtypes that a lesson trains in.
enum class Precisions {
  full,  // fp32 and fp64
  bf16,  // these and bf16
  all    // these and fp16, which needs a loss scale
};

struct LessonInfo {
  const char* name;         // "01_single_gpu"
  const char* description;  // one line
  Precisions precisions = Precisions::bf16;
  bool has_schedule = false;    // whether its ranks follow a list of actions that --draw can draw
  bool is_distributed = true;   // whether it runs on several ranks
  bool has_experts = false;     // whether it trains models with experts
  bool gives_matrices = false;  // whether update rules can have whole matrices
  const char* optimizer = "adamw";  // of --optimizer, unless it is given
};

}  // namespace ladder
