// The flags of the program, and what it does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/train/trainer/flag_value.h"
#include "common/train/trainer/lesson_info.h"
#include "lessons/19_planning/candidate.h"
#include "lessons/19_planning/choose.h"

namespace ladder {

inline constexpr LessonInfo kPlanningLesson = {
    .name = "19_planning",
    .description = "Finds the fastest layouts of a model on a cluster, by simulating them.",
    .is_distributed = false};

struct PlanFlags {
  std::string model = "tiny", cluster, program, dtype;
  std::vector<std::string> sizes;  // --layers and the like, with their values
  PlanRequest allowed;             // only what plans may use
  size_t num_ranks = 0, global_batch_size = 0, top = 5;
  std::optional<size_t> keep_free;
  double seconds = 60;
  Limits limits;                      // no tokens: how long training takes is not asked
  std::vector<std::string> measured;  // offers to choose from, instead of plans
  bool explain = false;

  void add_to(FlagTable& flags);
};

// Prints the fastest layouts, why the others lose and the commands to run the first; with a
// deadline or a budget those on the number of devices that is chosen for it. Throws UserError if
// the flags do not go together, and Error if no layout fits or none keeps the limits.
void plan(const PlanFlags& flags);

}  // namespace ladder
