// compare A B: are two runs' dumps, or two safetensors files, the same? Exit status: 0 they are,
// within the tolerance; 1 they are not; 2 wrong usage, or unreadable files.
#include <iostream>

#include "tools/programs/small_program.h"
#include "tools/state/comparison/compare_files.h"

int main(int argc, char** argv) {
  CLI::App app("Compares two dump folders or two safetensors files, tensor by tensor.", "compare");
  std::string a, b;
  ladder::CompareOptions options;
  bool all = false;
  app.add_option("A", a, "folder with step_000001.safetensors, ..., or a file")->required();
  app.add_option("B", b, "the other one")->required();
  app.add_option(
         "--tolerance", options.tolerance,
         "allowed difference, relative to the largest element of the tensor, or of its part "
         "where it has some: rows of the embeddings, query, key and value; 0: same bits")
      ->capture_default_str();
  app.add_option("--learning-rate", options.learning_rate, "the runs', for the key-bias rule")
      ->capture_default_str();
  app.add_option("--epsilon", options.epsilon, "AdamW's, for the key-bias rule")
      ->capture_default_str();
  app.add_flag("--all", all, "a line for every tensor, not only the worst of those that differ");
  return ladder::run_small_program(app, argc, argv, [&] {
    ladder::check_options(options);
    const bool same =
        ladder::print_report(std::cout, ladder::compare_paths(a, b, options), options, all);
    std::cout.flush();
    ladder::check(std::cout.good(), "the report could not be written");
    return same ? 0 : 1;
  });
}
