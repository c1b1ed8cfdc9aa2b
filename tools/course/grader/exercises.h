// The graded exercises: what is looked at in each, ten points in all.
#pragma once

#include <string>
#include <vector>

#include "tools/course/grader/checks.h"

namespace ladder {

// The checks of a lesson's exercise, by the lesson's folder. UserError: it has none.
std::vector<Check> exercise(const std::string& lesson);

}  // namespace ladder
