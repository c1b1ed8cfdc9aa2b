// How long a training step of lesson 01 would take on a GPU, kernel by kernel: predicted from what
// the emulator counts, not measured.
//   bazel run //kernels:roofline -- --gpu h100 --model gpt2 --dtype bf16 --batch 16
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "tools/measure/roofline/step.h"
#include "tools/measure/roofline/table.h"
#include "tools/programs/small_program.h"

namespace ladder::roofline {
namespace {

const std::map<std::string, DType> kDtypes = {
    {"bf16", DType::bf16}, {"fp16", DType::fp16}, {"fp32", DType::fp32}};

int run(int argc, char** argv) {
  CLI::App app("Predicts how long a training step takes on a GPU, kernel by kernel.", "roofline");
  RunConfig config;
  config.model_name = "gpt2";
  config.device = DeviceType::emulator;
  std::string gpu = "h100", dtype = "bf16", measured;
  size_t batch = 16, most_blocks = 8, sequence_length = 0;
  app.add_option("--gpu", gpu, "a100-40, a100-80, h100 or h200 [h100]");
  app.add_option("--model", config.model_name, "nano, tiny, gpt2, gpt2-medium, ... [gpt2]");
  app.add_option("--dtype", dtype, "bf16, fp16 or fp32 [bf16]");
  app.add_option("--batch", batch, "sequences of a step [16]");
  app.add_option("--sequence-length", sequence_length, "tokens of a sequence [the model's]");
  app.add_option("--measured", measured,
                 "file with the output of lesson 01 on that GPU under LADDER_TIME_KERNELS=1");
  app.add_option("--blocks", most_blocks, "thread blocks of a launch that the emulator runs [8]");
  return run_small_program(app, argc, argv, [&] {
    if (!kDtypes.contains(dtype)) throw UserError("--dtype: known are bf16, fp16, fp32");
    if (batch == 0 || most_blocks == 0) throw UserError("--batch and --blocks must be positive");
    const Cluster target = read_gpu(gpu);
    config.dtype = kDtypes.at(dtype);
    config.model = find_preset(config.model_name).config;
    if (sequence_length != 0) config.model.sequence_length = sequence_length;
    check_config(config.model);
    config.global_batch_size = config.micro_batch_size = batch;
    std::ostringstream times;
    if (!measured.empty() && !(times << std::ifstream(measured).rdbuf())) {
      throw UserError(concat("--measured ", measured, ": cannot be read, or is empty"));
    }
    std::vector<Row> rows =
        rows_of(profile_step(config, target, most_blocks), target, config.dtype);
    if (!measured.empty()) {
      for (const std::string& name : add_measured(rows, times.str())) {
        std::cerr << "measured, but not in a step: " << name << "\n";
      }
    }
    std::cout << table_of(rows, target, config) << std::flush;
    check(std::cout.good(), "standard output could not be written to the end");
    return 0;
  });
}

}  // namespace
}  // namespace ladder::roofline

int main(int argc, char** argv) { return ladder::roofline::run(argc, argv); }
