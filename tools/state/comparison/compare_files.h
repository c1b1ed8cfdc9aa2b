// Comparing what lies on the disk: two safetensors files, or two folders of dumps.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "tools/state/comparison/compare.h"

namespace ladder {

// One pair of files of the same name (or the two files that the user named).
struct FileDifference {
  std::string name;                       // "step_000001.safetensors"
  std::string remark;                     // "only in A" when there is nothing to compare it with
  std::vector<TensorDifference> tensors;  // by name; a tensor that only one file has does not pass

  bool passes() const;
};

// Compares two files, or every step_NNNNNN.safetensors of two folders, in order of the steps.
// UserError: a path is missing, unreadable or damaged; a file against a folder; a tensor that is
// neither F32 nor F64; nothing to compare.
std::vector<FileDifference> compare_paths(const std::string& a, const std::string& b,
                                          const CompareOptions& options);

// Prints a line for each of the 20 worst tensors of those that differ (`all`: for every tensor),
// then one for each file, then the verdict. Returns whether everything passes.
bool print_report(std::ostream& out, const std::vector<FileDifference>& files,
                  const CompareOptions& options, bool all);

}  // namespace ladder
