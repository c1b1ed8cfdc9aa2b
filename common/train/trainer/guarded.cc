#include "common/train/trainer/guarded.h"

#include <unistd.h>

#include <cstdlib>

#include "common/comm/launcher.h"
#include "common/io/printable.h"
#include "common/io/standard_streams.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// `bazel run` starts programs in a folder of its own. This changes back to the user's folder before
// anything else happens, so that relative paths mean what the user expects. Returns the mistake if
// there is no such folder, or "".
std::string change_to_users_folder() {
  const char* const folder = std::getenv("BUILD_WORKING_DIRECTORY");
  if (folder == nullptr || chdir(folder) == 0) return "";
  return concat("BUILD_WORKING_DIRECTORY ", folder, ": cannot change to this folder");
}

}  // namespace

int run_guarded(const LessonInfo& lesson, const std::function<void(Job&)>& body,
                const std::function<double()>& wait_limit) {
  prepare_standard_streams();
  if (const Launch launch = find_launch(); !lesson.is_distributed && launch.size > 1) {
    say_for_all(launch, concat(lesson.name, " runs on one rank, ", launch.name, " started ",
                               launch.size, "; for several ranks take 02_ddp"));
    return 2;
  }
  Job job;
  try {
    const std::string mistake = change_to_users_folder();
    job.join(wait_limit ? wait_limit() : 0);
    if (!mistake.empty()) throw UserError(mistake);
    body(job);
    print("");  // what was printed without looking, such as the help, could not be written either
    return 0;
  } catch (const UserError& error) {
    job.refuse(one_line(error.what()));
    return 2;
  } catch (const std::exception& error) {
    job.fail(failure_text(job, error), 1);
    return 1;
  }
}

void on_the_way(const std::function<void()>& body) {
  try {
    body();
  } catch (const UserError& error) {
    throw Error(error.what());
  }
}

void end_ranks(Job& job, const std::exception& error, const std::function<void()>& tidy_up) {
  const std::string text = failure_text(job, error);
  job.announce(text);
  job.communicator().give_up();
  if (job.size() == 1) return;
  tidy_up();
  job.fail(text, 1);
}

std::string failure_text(const Job& job, const std::exception& error) {
  return printable(concat("error: ", job.prefix(), said(error)));
}

}  // namespace ladder
