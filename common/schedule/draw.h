// Pictures of a pipeline schedule in time: a row for each stage, a box for each forward and
// backward. Everything else, messages too, is idle time. Times may be simulated or measured.
#pragma once

#include <string>

#include "common/schedule/simulate.h"

namespace ladder {

// For the terminal, in ASCII. A forward is its micro-batch's number and blanks, a backward the same
// in brackets, idle time is dots. Rows are scaled so that numbers fit: 4 stages and 8 micro-batches
// in 90 columns if the bubble is small. Where stages differ so much that rows would get too long,
// boxes that are too short for their number are filled with 'f' or 'b'. Rows end with the stage's
// idle share; the last line says what the signs mean, and the bubble. REQUIRES: the timeline is the
// schedule's and not empty.
std::string draw_text(const Schedule& schedule, const Timeline& timeline);

// A standalone SVG, its title `name`, the numbers of stages and micro-batches and the bubble. Boxes
// that are too narrow have no number.
// REQUIRES: as above; `name` has none of XML's special characters.
std::string draw_svg(const std::string& name, const Schedule& schedule, const Timeline& timeline);

}  // namespace ladder
