// Draws a pipeline schedule in time: a line for each stage, and on it a box for each forward and
// backward. Everything else, messages too, is idle time. Times may be simulated or measured.
#pragma once

#include <string>

#include "common/schedule/simulate.h"

namespace ladder {

// Draws in ASCII for the terminal. A forward is its micro-batch's number and blanks, a backward the
// same in brackets, idle time is dots. A unit of time is so wide that numbers fit: 4 stages and 8
// micro-batches take 90 columns if the bubble is small. If stages differ so much that lines would
// get too long, boxes that are too short for their number are filled with 'f' or 'b'. A line ends
// with the stage's share of idle time. The last line explains the signs and gives the bubble.
// REQUIRES: the timeline is the schedule's and not empty.
std::string draw_text(const Schedule& schedule, const Timeline& timeline);

// Draws a standalone SVG. Its title has `name`, the numbers of stages and micro-batches, and the
// bubble. Boxes that are too narrow have no number. REQUIRES: the timeline is the schedule's and
// not empty; `name` has none of XML's special characters.
std::string draw_svg(const std::string& name, const Schedule& schedule, const Timeline& timeline);

}  // namespace ladder
