#include "tools/measure/calibrator/lessons.h"

#include <map>

#include "common/io/printable.h"
#include "lessons/01_single_gpu/trainer.h"
#include "lessons/02_ddp/trainer.h"
#include "lessons/03_zero1/trainer.h"
#include "lessons/04_zero2/trainer.h"
#include "lessons/05_zero3/trainer.h"
#include "lessons/06_offload/trainer.h"
#include "lessons/07_tensor_parallel/trainer.h"
#include "lessons/08_pipeline_parallel/trainer.h"
#include "lessons/09_3d_parallel/trainer.h"
#include "lessons/10_mixed_precision/trainer.h"

namespace ladder {
namespace {

using MakeProgram = Program (*)();

const std::map<std::string, MakeProgram>& programs() {
  static const std::map<std::string, MakeProgram> all = {
      {"01_single_gpu", [] { return make_program<SingleGpuTrainer>(); }},
      {"02_ddp", [] { return make_program<DdpTrainer>(); }},
      {"03_zero1", [] { return make_program<Zero1Trainer>(); }},
      {"04_zero2", [] { return make_program<Zero2Trainer>(); }},
      {"05_zero3", [] { return make_program<Zero3Trainer>(); }},
      {"06_offload", [] { return make_program<OffloadTrainer>(); }},
      {"07_tensor_parallel", [] { return make_program<TensorParallelTrainer>(); }},
      {"08_pipeline_parallel", [] { return make_program<PipelineTrainer>(); }},
      {"09_3d_parallel", [] { return make_program<ThreeDTrainer>(); }},
      {"10_mixed_precision", [] { return make_program<MixedPrecisionTrainer>(); }},
  };
  return all;
}

}  // namespace

std::vector<std::string> lessons_to_calibrate() {
  std::vector<std::string> names;
  for (const auto& [name, make] : programs()) names.push_back(name);
  return names;
}

Program program_of(const std::string& lesson) {
  const auto found = programs().find(lesson);
  if (found != programs().end()) return found->second();
  throw UserError(concat("--lesson ", quoted_name(lesson),
                         ": expected one of 01_single_gpu to 10_mixed_precision"));
}

}  // namespace ladder
