// inspector FILE [TENSOR]: what is in a file of tensors. Exit status: 0; 2 wrong usage, or a file
// that cannot be read; 1 anything else.
#include <iostream>
#include <vector>

#include "tools/programs/small_program.h"
#include "tools/state/inspector/inspect.h"

int main(int argc, char** argv) {
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
  app.footer(
      "  --diff A B                  two files or dump folders, tensor by tensor, to the bit");
  return ladder::run_small_program(app, argc, argv, [&] {
    at.resize(2, 0);
    const ladder::SafetensorsReader reader(file);
    std::cout << (tensor.empty() ? ladder::table_of(reader)
                                 : ladder::values_of(reader, tensor, at[0], at[1], count))
              << std::flush;
    ladder::check(std::cout.good(), "standard output could not be written to the end");
    return 0;
  });
}
