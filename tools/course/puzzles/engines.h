// Work that goes through several engines, one after the other, in time.
#pragma once

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

struct EngineSpan {
  int begin, end;
};
using EngineSpans = std::vector<std::vector<EngineSpan>>;  // by engine and item

// Looks at every moment, and starts what can start. takes[e][i] is how long engine e takes for item
// i, at least 1. An engine works on one item at a time, in order. An item enters only if fewer than
// `most` are inside.
inline EngineSpans run_engines(const Table& takes, int most) {
  const size_t num_engines = takes.size(), num_items = takes[0].size();
  EngineSpans spans(num_engines);
  const auto has_left = [&](size_t engine, size_t item, int now) {
    return spans[engine].size() > item && spans[engine][item].end <= now;
  };
  for (int now = 0; spans.back().size() < num_items; ++now) {
    for (size_t e = 0; e < num_engines; ++e) {
      const size_t item = spans[e].size();
      if (item == num_items || (item > 0 && !has_left(e, item - 1, now))) continue;
      const size_t leaves = item - static_cast<size_t>(most);
      const bool can_start =
          e > 0 ? has_left(e - 1, item, now)
                : item < static_cast<size_t>(most) || has_left(num_engines - 1, leaves, now);
      if (can_start) spans[e].push_back({now, now + takes[e][item]});
    }
  }
  return spans;
}

// Draws an engine: a letter is an item, repeated as long as it takes.
inline std::string drawn(const std::string& name, const std::vector<EngineSpan>& spans) {
  std::string line;
  for (size_t i = 0; i < spans.size(); ++i) {
    line.resize(spans[i].begin, '.');
    line.resize(spans[i].end, static_cast<char>('a' + i % 26));
  }
  return name + " |" + line;
}

}  // namespace ladder::puzzles
