// Draws a pipeline schedule in time: a line for each stage, and on it a box for each forward and
// backward, or half of backward. Everything else, messages too, is idle time. Times may be
// simulated or measured.
#pragma once

#include <string>

#include "common/schedule/simulate.h"

namespace ladder {

// Draws in ASCII for the terminal. A forward is its micro-batch's number and blanks, a backward the
// same in brackets, the weights' half of backward the same in parentheses, idle time is dots. If
// stages have several chunks, a letter after the number names the chunk: a, b, c. A unit of time is
// so wide that numbers fit: 4 stages and 8 micro-batches take 90 columns if the bubble is small. If
// stages differ so much that lines would get too long, boxes that are too short for their number
// are filled with 'f' or 'b'. A line ends with the stage's share of idle time. The last line
// explains the signs and gives the bubble. REQUIRES: the timeline is the schedule's and not empty.
std::string draw_text(const Schedule& schedule, const Timeline& timeline);

// Draws a standalone SVG. Its title has `name`, the numbers of stages and micro-batches, and the
// bubble. Idle time is cut where the forward or backward that a stage waits for, or has just done,
// ends on another stage: so it is as many boxes. Below its boxes a stage has a curve: for how many
// micro-batches it holds activations, from a forward's beginning to the end of the last work on it.
// A chunk counts as a part. Boxes that are too narrow have no number, and those of later chunks are
// pale; more than two chunks have letters. The picture is as wide as `duration`, or as the timeline
// if that is 0, so that several pictures can have one scale. REQUIRES: the timeline is the
// schedule's and not empty; `name` has none of XML's special characters.
std::string draw_svg(const std::string& name, const Schedule& schedule, const Timeline& timeline,
                     double duration = 0);

}  // namespace ladder
