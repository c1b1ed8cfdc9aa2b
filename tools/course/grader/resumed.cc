#include "tools/course/grader/resumed.h"

#include <regex>

#include "kernels/runtime/check.h"
#include "tools/state/comparison/compare_files.h"

namespace ladder {
namespace {

// The run of the readers, from the checkpoint that the writers' first step has left.
const Outcome& resume(Grading& grading, Whose whose, const Relay& relay) {
  const Outcome& written =
      grading.train(Whose::lesson, relay.writers.num_ranks,
                    relay.writers.flags + " --checkpoint c --checkpoint-every 1");
  return grading.train(whose, relay.readers.num_ranks,
                       relay.readers.flags + " --checkpoint c --resume",
                       written.folder + "/c/step_00000001");
}

std::string look_at_dumps(Grading& grading, const Relay& relay) {
  const Outcome& lesson = resume(grading, Whose::lesson, relay);
  const Outcome& learner = resume(grading, Whose::learner, relay);
  if (!learner.ended_well()) return learner.complaint;
  for (const auto& file : compare_paths(learner.folder + "/dump", lesson.folder + "/dump", {})) {
    if (!file.remark.empty()) return concat(file.name, ": ", file.remark);
    for (const TensorDifference& tensor : file.tensors) {
      if (!tensor.passes) return concat("after the next step ", tensor.name, " is another one");
    }
  }
  return {};
}

size_t bytes_read_in(const Outcome& outcome) {
  static const std::regex kLine("all ranks together have read ([0-9,]+) bytes");
  std::smatch match;
  if (!std::regex_search(outcome.out, match, kLine)) {
    throw Error("the program does not say what it has read");
  }
  std::string digits = match[1];
  std::erase(digits, ',');
  return std::stoull(digits);
}

std::string look_at_bytes(Grading& grading, const Relay& relay) {
  if (!look_at_dumps(grading, relay).empty()) {
    return "not looked at: the results of this run are not right";
  }
  const size_t read = bytes_read_in(resume(grading, Whose::learner, relay));
  const size_t enough = bytes_read_in(resume(grading, Whose::lesson, relay));
  return read <= enough ? "" : concat(read, " bytes read, ", enough, " would do");
}

}  // namespace

Check resumed(int points, const std::string& name, const Relay& relay, const std::string& hint) {
  return {points, name, [=](Grading& grading) { return look_at_dumps(grading, relay); }, hint};
}

Check bytes_read(int points, const Relay& relay, const std::string& hint) {
  return {points, "bytes read", [=](Grading& grading) { return look_at_bytes(grading, relay); },
          hint};
}

}  // namespace ladder
