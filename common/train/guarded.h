// Runs a program's body and turns exceptions into messages and exit statuses.
#pragma once

#include <functional>

#include "common/comm/job.h"
#include "common/train/lesson_info.h"

namespace ladder {

// Joins the other ranks if the lesson is `distributed`, and calls `body`. Returns the exit status:
// 0 if the body returned, 2 if it threw UserError (the user's mistake), 1 if it threw anything
// else. An exception becomes one message on standard error. A rank that fails ends all ranks.
int run_guarded(const LessonInfo& lesson, bool distributed, const std::function<void(Job&)>& body);

}  // namespace ladder
