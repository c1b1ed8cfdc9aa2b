// The map of the course: every lesson, with arrows from the lessons that it adds its idea to.
#pragma once

#include <string>

#include "tools/course/pictures/lesson_graph.h"

namespace ladder {

// As SVG. A lesson stands in the column behind its last parent. REQUIRES: parents are lessons of
// the graph, and none is its own ancestor.
std::string course_map(const LessonGraph& graph);

}  // namespace ladder
