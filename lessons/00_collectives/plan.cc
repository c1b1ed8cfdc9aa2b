#include "lessons/00_collectives/plan.h"

#include <algorithm>
#include <bit>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// A plan under construction.
struct Builder {
  size_t num_ranks, num_elements;
  Plan plan = Plan(num_ranks);

  Elements whole() const { return {0, num_elements}; }
  // Part `index`, counted around the ring: part N is part 0 again.
  Elements part(size_t index) const { return part_of(num_elements, num_ranks, index % num_ranks); }
  Elements parts(size_t first, size_t count) const {
    return {part(first).begin, part(first + count - 1).end};
  }

  void exchange(size_t rank, std::optional<Exchange::Transfer> send,
                std::optional<Exchange::Transfer> receive, bool adds) {
    if (send && send->range.size() == 0) send.reset();
    if (receive && receive->range.size() == 0) receive.reset();
    if (send || receive) plan[rank].push_back({send, receive, adds && receive});
  }
  // Adds an exchange to both ranks, in which they do nothing but send and receive one message.
  void message(size_t from, size_t to, Elements range, bool adds = false) {
    exchange(from, Exchange::Transfer{to, range}, {}, false);
    exchange(to, {}, Exchange::Transfer{from, range}, adds);
  }
};

void naive_reduce(Builder& b) {
  for (size_t r = 1; r < b.num_ranks; ++r) b.message(r, 0, b.whole(), true);
}

void naive_broadcast(Builder& b) {
  for (size_t r = 1; r < b.num_ranks; ++r) b.message(0, r, b.whole());
}

// Ranks exchange parts in pairs. Each takes its partners from rank 0 on, so all want rank 0 first.
void naive_all_to_all(Builder& b) {
  for (size_t r = 0; r < b.num_ranks; ++r) {
    for (size_t peer = 0; peer < b.num_ranks; ++peer) {
      if (peer != r) b.exchange(r, {{peer, b.part(peer)}}, {{peer, b.part(peer)}}, false);
    }
  }
}

void naive(Builder& b, Collective collective) {
  using enum Collective;
  if (collective == all_to_all) return naive_all_to_all(b);
  if (collective == all_gather) {
    for (size_t r = 1; r < b.num_ranks; ++r) b.message(r, 0, b.part(r));
  } else if (collective != broadcast) {
    naive_reduce(b);
  }
  if (collective == reduce_scatter) {
    for (size_t r = 1; r < b.num_ranks; ++r) b.message(0, r, b.part(r));
  } else if (collective != reduce) {
    naive_broadcast(b);
  }
}

// The sum of part c begins at rank c + 1 and ends, complete, at rank c.
void ring_reduce_scatter(Builder& b) {
  const size_t n = b.num_ranks;
  for (size_t r = 0; r < n; ++r) {
    const size_t next = (r + 1) % n, previous = (r + n - 1) % n;
    for (size_t s = 0; s + 1 < n; ++s) {
      b.exchange(r, {{next, b.part(r + 2 * n - s - 1)}}, {{previous, b.part(r + 2 * n - s - 2)}},
                 true);
    }
  }
}

// Every part, complete at its own rank, goes once around.
void ring_all_gather(Builder& b) {
  const size_t n = b.num_ranks;
  for (size_t r = 0; r < n; ++r) {
    const size_t next = (r + 1) % n, previous = (r + n - 1) % n;
    for (size_t s = 0; s + 1 < n; ++s) {
      b.exchange(r, {{next, b.part(r + n - s)}}, {{previous, b.part(r + n - s - 1)}}, false);
    }
  }
}

// The vector goes along the chain of ranks: forward from rank 0, or, to be summed, back to rank 0.
// It goes part by part, so that a rank receives the next part while it passes one on.
void ring_chain(Builder& b, bool forward) {
  const size_t n = b.num_ranks;
  for (size_t r = 0; r < n && n > 1; ++r) {
    const size_t position = forward ? r : n - 1 - r;  // the rank's place in the chain
    for (size_t c = 0; c <= n; ++c) {
      std::optional<Exchange::Transfer> send, receive;
      if (position > 0 && c < n) receive = {forward ? r - 1 : r + 1, b.part(c)};
      if (position + 1 < n && c > 0) send = {forward ? r + 1 : r - 1, b.part(c - 1)};
      b.exchange(r, send, receive, !forward);
    }
  }
}

// In round s those ranks exchange parts whose numbers sum up to s, modulo N. So all are busy at
// once.
void ring_all_to_all(Builder& b) {
  const size_t n = b.num_ranks;
  for (size_t r = 0; r < n; ++r) {
    for (size_t s = 0; s < n; ++s) {
      const size_t peer = (s + n - r) % n;
      if (peer != r) b.exchange(r, {{peer, b.part(peer)}}, {{peer, b.part(peer)}}, false);
    }
  }
}

void ring(Builder& b, Collective collective) {
  using enum Collective;
  if (collective == broadcast || collective == reduce) ring_chain(b, collective == broadcast);
  if (collective == reduce_scatter || collective == all_reduce) ring_reduce_scatter(b);
  if (collective == all_gather || collective == all_reduce) ring_all_gather(b);
  if (collective == all_to_all) ring_all_to_all(b);
}

// At distances 1, 2, 4, ... the second of every two remaining ranks gives its vector to the first,
// which remains. A broadcast goes the other way.
void tree(Builder& b, Collective collective) {
  const size_t n = b.num_ranks, top = std::bit_ceil(n) / 2;
  for (size_t d = 1; d < n && collective != Collective::broadcast; d *= 2) {
    for (size_t r = 0; r + d < n; r += 2 * d) b.message(r + d, r, b.whole(), true);
  }
  for (size_t d = top; d > 0 && collective != Collective::reduce; d /= 2) {
    for (size_t r = 0; r + d < n; r += 2 * d) b.message(r, r + d, b.whole());
  }
}

// Partners are at distance N/2, N/4, ..., 1. Each keeps the half that contains its own part, and
// gives away the other half. all_gather goes the other way.
void halving(Builder& b, Collective collective) {
  const size_t n = b.num_ranks;
  for (size_t r = 0; r < n; ++r) {
    const auto exchange = [&](size_t d, bool adds) {
      const size_t peer = r ^ d;
      const Elements own = b.parts(r / d * d, d), others = b.parts(peer / d * d, d);
      b.exchange(r, {{peer, adds ? others : own}}, {{peer, adds ? own : others}}, adds);
    };
    for (size_t d = n / 2; d > 0 && collective != Collective::all_gather; d /= 2) exchange(d, true);
    for (size_t d = 1; d < n && collective != Collective::reduce_scatter; d *= 2) {
      exchange(d, false);
    }
  }
}

}  // namespace

std::string_view name_of(Algorithm algorithm) {
  constexpr std::string_view names[] = {"naive", "ring", "tree", "halving"};
  return names[static_cast<size_t>(algorithm)];
}

bool supports(Algorithm algorithm, Collective collective) {
  using enum Collective;
  const bool is_rooted = collective == broadcast || collective == reduce;
  const bool is_in_parts = collective == reduce_scatter || collective == all_gather;
  if (algorithm == Algorithm::tree) return is_rooted || collective == all_reduce;
  if (algorithm == Algorithm::halving) return is_in_parts || collective == all_reduce;
  return is_rooted || is_in_parts || collective == all_reduce || collective == all_to_all;
}

void check_supported(Algorithm algorithm, Collective collective, size_t num_ranks) {
  if (!supports(algorithm, collective)) {
    throw UserError(concat("the algorithm ", name_of(algorithm), " does no ", name_of(collective),
                           "; ring and naive do"));
  }
  if (algorithm == Algorithm::halving && !std::has_single_bit(num_ranks)) {
    throw UserError(concat("the algorithm halving needs a power of two of ranks, not ", num_ranks,
                           "; the next one is ", std::bit_ceil(num_ranks)));
  }
}

Plan make_plan(Algorithm algorithm, Collective collective, size_t num_ranks, size_t num_elements) {
  check_supported(algorithm, collective, num_ranks);
  check(collective != Collective::all_to_all || num_elements % num_ranks == 0,
        "make_plan: the ranks do not divide the elements of all_to_all");
  Builder builder{num_ranks, num_elements};
  switch (algorithm) {
    case Algorithm::naive:
      naive(builder, collective);
      break;
    case Algorithm::ring:
      ring(builder, collective);
      break;
    case Algorithm::tree:
      tree(builder, collective);
      break;
    case Algorithm::halving:
      halving(builder, collective);
      break;
  }
  return std::move(builder.plan);
}

}  // namespace ladder
