// Runs a program's body and turns exceptions into messages and exit statuses.
#pragma once

#include <exception>
#include <functional>
#include <string>

#include "common/comm/job.h"
#include "common/train/trainer/lesson_info.h"

namespace ladder {

// Joins the other ranks if the lesson is distributed, and calls `body`. Returns the exit status:
// 0 if the body returned, 2 if it threw UserError (the user's mistake), 1 if it threw anything
// else. An exception becomes one message on standard error. A rank that fails ends all ranks.
// (job.h says how.) `wait_limit`, if given, is called before ranks join and returns that of
// MpiWorld; relative paths mean what the user expects.
int run_guarded(const LessonInfo& lesson, const std::function<void(Job&)>& body,
                const std::function<double()>& wait_limit = nullptr);

// Runs body() after all inputs and outputs have been checked. A UserError thrown now, for example
// because a folder has vanished, is not the user's mistake, so it is rethrown as an Error.
void on_the_way(const std::function<void()>& body);

// Says what went wrong, tidies up files, and ends all ranks. Returns only if there is no other
// rank. The caller has not destroyed anything yet: operations in the background, and peers, may use
// this rank's memory until the end.
void end_ranks(Job& job, const std::exception& error, const std::function<void()>& tidy_up);

// Returns the message for an exception that is not the user's mistake: "error: rank 3 on host:
// ...".
std::string failure_text(const Job& job, const std::exception& error);

}  // namespace ladder
