// timeline TRACE PICTURE: draws a step of the file of --trace as SVG. Exit status: 0; 2 wrong
// usage, no such step, or a file that cannot be read or written; 1 anything else.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "common/io/file.h"
#include "common/io/printable.h"
#include "kernels/runtime/check.h"
#include "tools/pictures/timeline.h"

namespace {

using ladder::concat;
using ladder::UserError;

void run(int argc, char** argv) {
  CLI::App app("Draws a step of a run's --trace: what every rank computed and communicated when.",
               "timeline");
  std::string trace, picture;
  size_t step = 0;
  app.add_option("TRACE", trace, "the file of --trace")->required();
  app.add_option("PICTURE", picture, "File: SVG")->required();
  app.add_option("--step", step, "1 is the first of the run [the last]")
      ->check(CLI::Range(1, 1'000'000'000));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return;
  } catch (const CLI::ParseError& error) {
    throw UserError(concat(error.what(), "; see --help"));
  }
  // Under `bazel run` relative paths are still the user's.
  const char* const folder = std::getenv("BUILD_WORKING_DIRECTORY");
  if (folder != nullptr && chdir(folder) != 0) {
    throw UserError(concat(folder, ": cannot be entered"));
  }
  ladder::PartialFile file(picture);
  file.write(ladder::timeline_of_file(trace, step));
  file.commit();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
    return 0;
  } catch (const UserError& error) {
    std::cerr << "timeline: " << ladder::one_line(error.what()) << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "timeline: " << ladder::one_line(error.what()) << "\n";
    return 1;
  }
}
