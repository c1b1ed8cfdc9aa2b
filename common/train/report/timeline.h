// A picture of a step: what every rank computed and communicated when.
#pragma once

#include <cstddef>
#include <string>

#include "common/io/svg.h"

namespace ladder {

// `trace`: the text of the file. Each rank has a row for its computation, with boxes for forward,
// classifier, backward and update, and below it one for its communication; what ran at the same
// time has a row more. No box is hidden: a short one is a pixel wide. The time of the step is that
// of all ranks together: from the first span of a rank's step to the last one. Control messages
// (checks and norms, a few bytes each) are left out, and so are numbers and names that do not fit
// into their box. `step`: 1 is the first of the run, 0 stands for the last one (step_spans.h).
// UserError: no trace of a training run, or it has no such step.
std::string timeline(const std::string& trace, size_t step);
// Of the file at `path`, which messages name. UserError: it cannot be read, or as above.
std::string timeline_of_file(const std::string& path, size_t step);

// Draws an axis from 0 to so many microseconds, `width` pixels wide from (left, y) on.
void draw_time_axis(Svg& svg, double left, double width, double microseconds, double y);

}  // namespace ladder
