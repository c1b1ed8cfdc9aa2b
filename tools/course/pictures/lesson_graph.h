// Which lessons there are, and which lesson adds its idea to which.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ladder {

// The parents that the text of a lesson's BUILD file declares: lesson(parents = [...]). Nothing
// where it declares no lesson.
std::optional<std::vector<std::string>> parents_in(const std::string& build_file);

// Parents by lesson, both by the names of their folders.
using LessonGraph = std::map<std::string, std::vector<std::string>>;

// Of all lessons below root/lessons/.
LessonGraph read_lessons(const std::string& root);

// The lessons of the core path, in order: those that a table of the front page begins its rows
// with.
std::vector<std::string> read_core_path(const std::string& root);

}  // namespace ladder
