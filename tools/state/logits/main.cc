// logits --init FOLDER [--init-adapter FOLDER] --tokens 1,2,3: a line of logits for each token.
// Exit status: 0; 2 wrong usage, or a folder that cannot be read; 1 anything else.
#include <iostream>
#include <string>
#include <vector>

#include "kernels/runtime/check.h"
#include "kernels/runtime/threads.h"
#include "tools/programs/small_program.h"
#include "tools/state/logits/logits.h"

namespace {

ladder::DType dtype_named(const std::string& name) {
  if (name == "fp32") return ladder::DType::fp32;
  if (name == "fp64") return ladder::DType::fp64;
  throw ladder::UserError("--dtype " + name + ": expected fp32 or fp64");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Prints a model's logits: a line for each token, with those of the next one.",
               "logits");
  std::string folder, adapters, dtype = "fp32";
  std::vector<int32_t> tokens;
  app.add_option("--init", folder, "folder with weights and config.json, such as --export writes")
      ->required();
  app.add_option("--init-adapter", adapters, "folder with adapters, such as peft writes");
  app.add_option("--tokens", tokens, "numbers of tokens, with commas between them")
      ->delimiter(',')
      ->required();
  app.add_option("--dtype", dtype, "fp32 or fp64 [fp32]");
  return ladder::run_small_program(app, argc, argv, [&] {
    ladder::set_num_threads(ladder::default_num_threads(1));
    const ladder::Logits logits = ladder::logits_of(folder, tokens, dtype_named(dtype), adapters);
    std::cout.precision(17);
    for (size_t i = 0; i < logits.values.size(); ++i) {
      std::cout << logits.values[i] << ((i + 1) % logits.vocab_size == 0 ? '\n' : ' ');
    }
    std::cout << std::flush;
    ladder::check(std::cout.good(), "standard output could not be written to the end");
    return 0;
  });
}
