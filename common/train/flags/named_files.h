// The files and folders that flags name.
#pragma once

#include "common/data/corpus.h"
#include "common/train/trainer/config.h"
#include "common/train/trainer/lesson_info.h"

namespace ladder {

// Throws a UserError that names both flags if an output of the run is also one of its inputs or
// another output, under whatever name, has a name that --dump or --tensorboard will use, or lies in
// a checkpoint.
void check_distinct(const RunConfig& config, const Corpus& corpus);

// Throws a UserError if the run cannot draw what --draw asks for: the schedule of a lesson that has
// none, or as CSV on the virtual device. An empty path asks for nothing.
void check_drawing(const std::string& path, bool is_virtual, const LessonInfo& lesson);

}  // namespace ladder
