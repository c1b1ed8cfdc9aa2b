// Prints the table of one model in every lesson, and writes it where the course shows it. It runs
// in the root of the tree, where tools/spine starts it.
#include <filesystem>

#include "common/io/file.h"
#include "common/io/standard_streams.h"
#include "kernels/runtime/check.h"
#include "tools/course/spine/spine.h"
#include "tools/programs/small_program.h"

namespace ladder {
namespace {

void write_stale_files() {
  for (const auto& [path, text] : spine_files(".", spine_lines())) {
    if (std::filesystem::exists(path) && read_file(path) == text) continue;
    PartialFile file(path);
    file.write(text);
    file.commit();
    print(path + "\n");
  }
}

int run(int argc, char** argv) {
  CLI::App app("One model in every lesson: does it fit, and how fast does it train?",
               "tools/spine");
  bool writes = false;
  app.add_flag("--write", writes, "Write the lines into the pages, draw the picture");
  return run_small_program(app, argc, argv, [&] {
    print(concat(spine_question(), ", simulated by: tools/run COMMAND", spine_flags(), "\n\n",
                 spine_table(spine_lines())));
    if (writes) write_stale_files();
    return 0;
  });
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) { return ladder::run(argc, argv); }
