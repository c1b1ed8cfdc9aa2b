#include <CLI/CLI.hpp>

#include "common/io/standard_streams.h"
#include "common/train/flags/command_line.h"
#include "common/train/flags/flag_table.h"
#include "common/train/flags/saved_flags.h"
#include "common/train/trainer/guarded.h"
#include "lessons/19_planning/program.h"

namespace ladder {
namespace {

int run_planning(int argc, const char* const* argv) {
  return run_guarded(kPlanningLesson, [&](Job&) {
    CLI::App app(kPlanningLesson.description, kPlanningLesson.name);
    PlanFlags flags;
    FlagTable table(app);
    flags.add_to(table);
    app.footer(help_footer(kPlanningLesson.name, 0));
    FlagsFile file;
    try {
      file = parse_command_line(app, argc, argv);
    } catch (const CLI::Success& asked) {
      return print(asked.what());
    }
    save_flags(table);
    print(file.note);
    plan(flags);
  });
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) { return ladder::run_planning(argc, argv); }
