// grader EXERCISE --mpirun P --learner P --lesson P --first P: points for a learner's program.
// Exit status: 0 full marks, 1 fewer, 2 wrong usage. tools/grade builds the programs and starts it.
#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>
#include <iostream>

#include "common/io/printable.h"
#include "kernels/runtime/check.h"
#include "tools/course/grader/exercises.h"
#include "tools/programs/small_program.h"

namespace {

using namespace ladder;

volatile std::sig_atomic_t ended_by = 0;

void note(int signal) { ended_by = signal; }

// Returns what is wrong, in a line; empty: nothing. Files that the learner's program has left may
// be of any kind, so whatever fails while they are read is a fault of that program.
std::string look(const Check& check, Grading& grading) {
  try {
    return check.look(grading);
  } catch (const GradingError&) {
    throw;
  } catch (const std::exception& error) {
    return concat("cannot read what your program wrote: ", one_line(said(error)));
  }
}

// Does the hint, which is about wrong results, help with this?
bool is_about_results(const std::string& wrong) {
  return !wrong.starts_with("not ") && wrong.find("crashed (") == wrong.npos &&
         wrong.find("did not end within ") == wrong.npos;
}

// Prints one check, its name when it begins, and returns its points.
int grade(const Check& check, Grading& grading) {
  std::cout << "  " << check.name << ": " << std::flush;
  const std::string wrong = look(check, grading);
  const int points = wrong.empty() ? check.points : 0;
  std::cout << points << " of " << check.points << "\n";
  if (!wrong.empty()) {
    std::cout << "    seen: " << wrong << "\n";
    if (is_about_results(wrong)) std::cout << "    hint: " << check.hint << "\n";
  }
  std::cout << std::flush;
  return points;
}

// Grades all checks of a lesson's exercise and returns the exit status.
int grade_all(const std::string& lesson, Programs programs) {
  // Every run has a folder of its own to be in.
  for (std::string* path :
       {&programs.mpirun, &programs.learner, &programs.lesson, &programs.first}) {
    *path = std::filesystem::absolute(*path);
  }
  Grading grading(programs, &ended_by);
  int points = 0, most = 0;
  std::string by_check;
  for (const Check& check : exercise(lesson)) {
    const int got = grade(check, grading);
    points += got;
    most += check.points;
    by_check += concat(by_check.empty() ? "" : " ", got);
  }
  std::cout << points << " of " << most << " points (" << by_check << ")\n";
  return points == most ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Grades a learner's program.", "grader");
  std::string lesson;
  Programs programs;
  app.add_option("LESSON", lesson, "such as 02_ddp")->required();
  app.add_option("--mpirun", programs.mpirun)->required();
  app.add_option("--learner", programs.learner)->required();
  app.add_option("--lesson", programs.lesson)->required();
  app.add_option("--first", programs.first)->required();
  // Runs have process groups of their own, which a Ctrl-C does not reach, and they leave files.
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (std::signal(signal, note) == SIG_IGN) std::signal(signal, SIG_IGN);  // as under nohup
  }
  const int status =
      run_small_program(app, argc, argv, [&] { return grade_all(lesson, programs); });
  return ended_by == 0 ? status : 128 + ended_by;
}
