#include <CLI/CLI.hpp>

#include "common/io/path.h"
#include "common/io/standard_streams.h"
#include "common/train/flags/alike.h"
#include "common/train/flags/command_line.h"
#include "common/train/flags/flag_table.h"
#include "common/train/flags/saved_flags.h"
#include "common/train/trainer/guarded.h"
#include "lessons/00_collectives/program.h"

namespace ladder {
namespace {

int run_collectives(int argc, const char* const* argv) {
  bool is_good = true;
  const int status = run_guarded(kCollectivesLesson, [&](Job& job) {
    require_same_program(job, kCollectivesLesson.name, argc, argv);
    CLI::App app(kCollectivesLesson.description, kCollectivesLesson.name);
    CollectiveFlags flags;
    FlagTable table(app);
    flags.add_to(table);
    app.footer(help_footer(kCollectivesLesson.name, 4));
    FlagsFile file;
    try {
      file = parse_command_line(app, argc, argv);
    } catch (const CLI::Success& asked) {
      if (job.rank() == 0) print(asked.what());
      return;
    }
    require_same_flags(job, app);
    check_apart({"--draw", flags.draw}, {"--config", file.path});
    check_apart({"--draw", flags.draw}, {kSaveFlag, saved_path(app)});
    if (job.rank() == 0) {
      save_flags(table);
      print(file.note);
    }
    if (!flags.show.empty()) return show(job, flags);
    job.connect({});
    is_good = flags.check_network ? check_network(job, flags) : measure(job, flags);
  });
  return status == 0 && !is_good ? 1 : status;
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) { return ladder::run_collectives(argc, argv); }
