// The jobs of the program, and the flags that choose between them.
#pragma once

#include <string>

#include "common/comm/job.h"
#include "common/train/trainer/flag_value.h"
#include "common/train/trainer/lesson_info.h"
#include "lessons/00_collectives/plan.h"

namespace ladder {

inline constexpr LessonInfo kCollectivesLesson = {
    "00_collectives", "Builds collectives from messages, checks them and measures what they cost."};

struct CollectiveFlags {
  Collective collective = Collective::all_reduce;
  std::string algorithm = "all";  // "all", "shared", or an algorithm's name
  std::string show = {};          // an algorithm's name; empty = measure
  std::string draw = {};          // path of an SVG; empty = none
  bool check_network = false;
  double minimum_bandwidth = 0;  // GB/s
  void add_to(FlagTable& flags);
};

// Each function does one of the program's jobs; rank 0 prints. They return false if a result is
// wrong, or too slow, which rank 0 has then said on standard error. They throw UserError if flags
// do not go together. Collective. REQUIRES: the job has connected, except for show().
void show(const Job& job, const CollectiveFlags& flags);
bool measure(Job& job, const CollectiveFlags& flags);
bool check_network(Job& job, const CollectiveFlags& flags);

}  // namespace ladder
