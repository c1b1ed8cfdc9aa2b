// What a lesson says of itself.
#pragma once

namespace ladder {

// Which dtypes a lesson trains in: fp32 and fp64; bf16 too; and fp16, which needs a loss scale.
enum class Precisions { full, bf16, all };

struct LessonInfo {
  const char* name;         // "01_single_gpu"
  const char* description;  // one line
  Precisions precisions = Precisions::bf16;
};

}  // namespace ladder
