// compare A B: are two runs' dumps, or two safetensors files, the same? Exit status: 0 they are,
// within the tolerance; 1 they are not; 2 wrong usage, or unreadable files.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "common/io/printable.h"
#include "tools/compare/compare_files.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app("Compares two dump folders or two safetensors files, tensor by tensor.");
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    throw ladder::UserError(ladder::concat(error.what(), "; see --help"));
  }
  ladder::check_options(options);
  // Under `bazel run` relative paths are still the user's.
  const char* const folder = std::getenv("BUILD_WORKING_DIRECTORY");
  if (folder != nullptr && chdir(folder) != 0) {
    throw ladder::UserError(ladder::concat(folder, ": cannot be entered"));
  }
  const bool same =
      ladder::print_report(std::cout, ladder::compare_paths(a, b, options), options, all);
  std::cout.flush();
  ladder::check(std::cout.good(), "the report could not be written");
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const ladder::UserError& error) {
    std::cerr << "compare: " << ladder::one_line(error.what()) << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "compare: " << ladder::one_line(error.what()) << "\n";
    return 1;
  }
}
