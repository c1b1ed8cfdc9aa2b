// timeline TRACE PICTURE: draws a step of the file of --trace as SVG. Exit status: 0; 2 wrong
// usage, no such step, or a file that cannot be read or written; 1 anything else.
#include "common/io/file.h"
#include "common/io/path.h"
#include "common/train/report/timeline.h"
#include "tools/programs/small_program.h"

int main(int argc, char** argv) {
  CLI::App app("Draws a step of a run's --trace: what every rank computed and communicated when.",
               "timeline");
  std::string trace, picture;
  size_t step = 0;
  app.add_option("TRACE", trace, "the file of --trace")->required();
  app.add_option("PICTURE", picture, "File: SVG")->required();
  app.add_option("--step", step, "1 is the first of the run [the last]")
      ->check(CLI::Range(1, 1'000'000'000));
  return ladder::run_small_program(app, argc, argv, [&] {
    ladder::check_apart({"PICTURE", picture}, {"TRACE", trace});
    ladder::PartialFile file(picture);
    file.write(ladder::timeline_of_file(trace, step));
    file.commit();
    return 0;
  });
}
