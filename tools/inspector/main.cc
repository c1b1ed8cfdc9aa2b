// inspector FILE [TENSOR]: what is in a file of tensors. Exit status: 0; 2 wrong usage, or a file
// that cannot be read.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <vector>

#include "common/io/printable.h"
#include "tools/inspector/inspect.h"

namespace {

using ladder::concat;
using ladder::UserError;

void run(int argc, char** argv) {
  CLI::App app("Shows what is in a dump, or in any other file of tensors (safetensors).",
               "inspect");
  std::string file, tensor;
  std::vector<size_t> at;
  size_t count = 8;
  app.add_option("FILE", file, "such as dump/step_000001.safetensors")->required();
  app.add_option("TENSOR", tensor,
                 "show its numbers: its whole name, or without grad., param., ...");
  app.add_option("--at", at, "row, or row,column, of the first number [0,0]")
      ->delimiter(',')
      ->expected(1, 2);
  app.add_option("--count", count, "how many numbers of the row [8]");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help() << "  --diff A B                  "
              << "two files or dump folders, tensor by tensor, to the bit\n";
    return;
  } catch (const CLI::ParseError& error) {
    throw UserError(concat(error.what(), "; see --help"));
  }
  // Under `bazel run` relative paths are still the user's.
  const char* const folder = std::getenv("BUILD_WORKING_DIRECTORY");
  if (folder != nullptr && chdir(folder) != 0) {
    throw UserError(concat(folder, ": cannot be entered"));
  }
  at.resize(2, 0);
  const ladder::SafetensorsReader reader(file);
  std::cout << (tensor.empty() ? ladder::table_of(reader)
                               : ladder::values_of(reader, tensor, at[0], at[1], count))
            << std::flush;
  ladder::check(std::cout.good(), "standard output could not be written to the end");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
    return 0;
  } catch (const UserError& error) {
    std::cerr << "inspect: " << ladder::one_line(error.what()) << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "inspect: " << ladder::one_line(error.what()) << "\n";
    return 1;
  }
}
