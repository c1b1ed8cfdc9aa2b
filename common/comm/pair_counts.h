// How many elements each rank of a group sends to each other rank in an all_to_all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/runtime/check.h"

namespace ladder {

// The parts that a rank sends lie one after the other in its buffer, by receiver. Those that it
// receives lie one after the other by sender.
class PairCounts {
 public:
  PairCounts() = default;
  // Every rank sends `each` elements to every rank.
  PairCounts(size_t num_ranks, size_t each) : num_ranks_(num_ranks), each_(each) {}
  // counts[from * num_ranks + to] is the number of elements that `from` sends to `to`.
  PairCounts(size_t num_ranks, std::vector<size_t> counts)
      : num_ranks_(num_ranks), counts_(std::move(counts)) {
    check(counts_.size() == num_ranks * num_ranks, "PairCounts: not one count for each pair");
  }

  size_t num_ranks() const { return num_ranks_; }
  bool are_equal() const { return counts_.empty(); }
  size_t of(size_t from, size_t to) const {
    return counts_.empty() ? each_ : counts_[from * num_ranks_ + to];
  }
  // Returns the element of the sender's buffer at which a part begins.
  size_t begin_sent(size_t from, size_t to) const {
    if (counts_.empty()) return to * each_;
    size_t begin = 0;
    for (size_t r = 0; r < to; ++r) begin += of(from, r);
    return begin;
  }
  // Returns the element of the receiver's buffer at which a part begins.
  size_t begin_received(size_t from, size_t to) const {
    if (counts_.empty()) return from * each_;
    size_t begin = 0;
    for (size_t r = 0; r < from; ++r) begin += of(r, to);
    return begin;
  }
  size_t sent(size_t from) const { return begin_sent(from, num_ranks_); }
  size_t received(size_t to) const { return begin_received(num_ranks_, to); }
  // Returns the elements that all ranks together send, those to themselves included.
  size_t total() const {
    size_t sum = 0;
    for (size_t from = 0; from < num_ranks_; ++from) sum += sent(from);
    return sum;
  }
  size_t total_to_others() const {
    size_t sum = total();
    for (size_t rank = 0; rank < num_ranks_; ++rank) sum -= of(rank, rank);
    return sum;
  }
  size_t largest() const {
    return counts_.empty() ? each_ : *std::max_element(counts_.begin(), counts_.end());
  }
  // Returns the counts of elements [first, first + most) of every part.
  PairCounts segment(size_t first, size_t most) const {
    const auto cut = [&](size_t n) { return std::min(most, n - std::min(first, n)); };
    if (counts_.empty()) return PairCounts(num_ranks_, cut(each_));
    std::vector<size_t> counts;
    for (size_t n : counts_) counts.push_back(cut(n));
    return PairCounts(num_ranks_, std::move(counts));
  }
  // Returns the counts for elements if these are counts of rows of n elements.
  PairCounts times(size_t n) const {
    if (counts_.empty()) return PairCounts(num_ranks_, n * each_);
    std::vector<size_t> counts;
    for (size_t rows : counts_) counts.push_back(n * rows);
    return PairCounts(num_ranks_, std::move(counts));
  }
  // Returns the counts of the all_to_all that brings everything back.
  PairCounts reversed() const {
    if (counts_.empty()) return PairCounts(num_ranks_, each_);
    std::vector<size_t> counts;
    for (size_t from = 0; from < num_ranks_; ++from) {
      for (size_t to = 0; to < num_ranks_; ++to) counts.push_back(of(to, from));
    }
    return PairCounts(num_ranks_, std::move(counts));
  }

 private:
  size_t num_ranks_ = 0, each_ = 0;
  std::vector<size_t> counts_;  // empty: each_
};

}  // namespace ladder
