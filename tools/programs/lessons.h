// The lessons' programs by name, for tools that run any of them.
#pragma once

#include <string>
#include <vector>

#include "common/train/program/program.h"

namespace ladder {

// Returns the names of the lessons from 01 to 17, in order.
std::vector<std::string> lesson_names();

// Returns the program of one of them. Throws a UserError if it is none.
Program program_of(const std::string& lesson);

}  // namespace ladder
