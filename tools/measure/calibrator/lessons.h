// The lessons whose kernels are measured.
#pragma once

#include <string>
#include <vector>

#include "common/train/program/program.h"

namespace ladder {

// Returns the names of the lessons from 01 to 10.
std::vector<std::string> lessons_to_calibrate();

// Returns the program of one of them. Throws a UserError if it is none.
Program program_of(const std::string& lesson);

}  // namespace ladder
