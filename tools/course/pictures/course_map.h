// The map of the course: every lesson, with arrows from the lessons that it adds its idea to.
#pragma once

#include <string>
#include <vector>

#include "tools/course/pictures/lesson_graph.h"

namespace ladder {

// As SVG. The lessons of the core path stand below each other, in the order in which they are read.
// To the right of each stand those that need it, and nothing after it in the path. An arrow comes
// from every parent that is read before, unless another parent leads to it, too.
// REQUIRES: all lessons of the path are in the graph, parents are lessons of the graph, and every
// lesson has an ancestor in the path or is in it.
std::string course_map(const LessonGraph& graph, const std::vector<std::string>& core_path);

}  // namespace ladder
