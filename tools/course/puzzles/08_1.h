// 08.1: runs the pipeline with the learner's numbers, and with one forward fewer on each stage.
#pragma once

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

// Runs m micro-batches through stages that begin with these numbers of forwards. Returns when the
// last one ends; 0 if they wait for each other for ever. Draws each stage as in lesson 08.
inline int run_pipeline(const std::vector<int>& first, int m, std::vector<std::string>& lines) {
  const int p = static_cast<int>(first.size());
  const int never = 1 << 20;
  Table forward(p, std::vector<int>(m, never)), backward = forward;  // when each ends
  std::vector<int> free(p), forwards(p), backwards(p);
  lines.assign(p, "");
  for (int now = 0, done = 0; done < 2 * p * m; ++now) {
    if (now > 3 * m * (p + 1)) return 0;
    for (int s = 0; s < p; ++s) {
      const int f = forwards[s], b = backwards[s];
      if (free[s] > now || b == m) continue;
      // first[s] forwards, then B F B F ..., then the backwards that are left
      const bool is_forward = f < m && f - b < first[s];
      const bool is_there = is_forward
                                ? s == 0 || forward[s - 1][f] <= now
                                : forward[s][b] <= now && (s + 1 == p || backward[s + 1][b] <= now);
      if (!is_there) continue;
      lines[s].resize(2 * now, '.');
      lines[s] += is_forward ? text(f, f < 10 ? " " : "") : text("[", b, b < 10 ? " ]" : "]");
      free[s] = now + (is_forward ? 1 : 2);
      (is_forward ? forward[s][forwards[s]++] : backward[s][backwards[s]++]) = free[s];
      ++done;
    }
  }
  return *std::max_element(free.begin(), free.end());
}

inline void check_08_1(Cases& cases, int (*warm_up)(int stage, int stages, int micro_batches)) {
  for (const int p : {2, 1, 3, 4}) {
    for (const int m : {4, 1, 2, 3, 5, 6, 7, 8}) {
      cases.begin(text("stages = ", p, ", micro_batches = ", m));
      std::vector<std::string> lines, ignored;
      std::vector<int> first;
      for (int s = 0; s < p; ++s) first.push_back(warm_up(s, p, m));
      cases.draw("warm-up: ", listed(first));
      for (int s = 0; s < p; ++s) {
        cases.expect(first[s] >= 0 && first[s] < m, "of ", m, " forwards ", first[s],
                     " cannot come before those of stage ", s, " that take turns");
        ++first[s];  // one more until its first backward
      }
      const int best = run_pipeline(std::vector<int>(p, m), m, ignored);  // all forwards first
      const int time = run_pipeline(first, m, lines);
      for (int s = 0; s < p; ++s) cases.draw("stage ", s, " |", lines[s]);
      cases.expect(time > 0, "stages wait for ever");
      cases.expect(time == best, "the step takes ", time, ", and could take ", best);
      for (int s = 0; s < p; ++s) {
        std::vector<int> fewer = first;
        --fewer[s];
        cases.expect(fewer[s] == 0 || run_pipeline(fewer, m, ignored) != best, fewer[s] - 1,
                     " would do for stage ", s);
      }
    }
  }
}

}  // namespace ladder::puzzles
