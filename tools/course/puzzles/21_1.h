// 21.1: small rows of ranks, and every rank in them.
#pragma once

#include <vector>

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_21_1(Cases& cases,
                       std::vector<int> (*replicas)(int rank, int ranks, int shard_size)) {
  for (const auto& [ranks, shard_size] :
       {std::pair{2, 2}, {2, 1}, {4, 2}, {6, 2}, {6, 3}, {8, 4}, {12, 4}, {12, 1}}) {
    for (int rank = 0; rank < ranks; ++rank) {
      cases.begin(text("rank = ", rank, ", ranks = ", ranks, ", shard_size = ", shard_size));
      std::string names, parts;
      for (int other = 0; other < ranks; ++other) {
        const std::string border = other % shard_size == 0 ? " |" : " ";
        names += border + std::string(other < 10 ? " " : "") + text(other);
        parts += border + " " + static_cast<char>('a' + other % shard_size);
      }
      cases.draw("rank ", names, "\n", "keeps", parts);
      std::vector<int> right;
      for (int other = 0; other < ranks; ++other) {
        if (other % shard_size == rank % shard_size) right.push_back(other);
      }
      const auto list = [](const std::vector<int>& numbers) {
        std::string all;
        for (int number : numbers) all += text(all.empty() ? "" : " ", number);
        return all;
      };
      const std::vector<int> got = replicas(rank, ranks, shard_size);
      cases.expect(got == right, "you return {", list(got), "}, and it is {", list(right), "}");
    }
  }
}

}  // namespace ladder::puzzles
