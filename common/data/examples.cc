#include "common/data/examples.h"

#include <algorithm>

#include "kernels/runtime/check.h"
#include "kernels/runtime/target.h"

namespace ladder {

size_t Example::num_counted() const {
  return targets.size() - static_cast<size_t>(std::ranges::count(targets, kIgnored));
}

void Examples::add(std::span<const int32_t> tokens, std::span<const int32_t> targets) {
  check(!tokens.empty() && tokens.size() == targets.size(), "Examples::add: lengths differ, or 0");
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  targets_.insert(targets_.end(), targets.begin(), targets.end());
  ends_.push_back(tokens_.size());
}

Example Examples::operator[](size_t index) const {
  const size_t begin = index == 0 ? 0 : ends_[index - 1], count = ends_[index] - begin;
  return {std::span(tokens_).subspan(begin, count), std::span(targets_).subspan(begin, count)};
}

}  // namespace ladder
