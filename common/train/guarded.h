// How programs end.
#pragma once

#include <functional>

#include "common/comm/job.h"
#include "common/train/lesson_info.h"

namespace ladder {

// Joins the other ranks where the lesson is `distributed`, calls `body`, and turns what it throws
// into one message on standard error and an exit status: 0 done, 2 the user's mistake, 1 anything
// else. A rank that fails ends all ranks.
int run_guarded(const LessonInfo& lesson, bool distributed, const std::function<void(Job&)>& body);

}  // namespace ladder
