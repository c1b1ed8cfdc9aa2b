// Calls that do not match, and ranks that do not come: an error that names both, on every rank.
#include <functional>

#include "tests/catch.h"
#include "tests/common/comm/devices.h"

namespace ladder::testing {
namespace {

using Call = std::function<Work(Communicator& group, Ranks& ranks)>;

// What a rank's call ends with; empty if with nothing.
std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// "rank 3 on hostname"
std::string name_of_rank(size_t rank) { return world().names_of(MPI_COMM_WORLD)[rank]; }

// Calls of which the ranks make one each, with the text that errors have for it.
struct Told {
  Call call;
  std::string text;
};

// Every rank but `odd` makes the call `usual`. All must end with an error that says who called
// what. After it the group is of no more use: all ranks destroy it together, as always.
void require_mismatch(NodeMemory* node_memory, Ranks& ranks, size_t odd, const Told& usual,
                      const Told& other) {
  // Who does not see the difference waits for the others, and fails by that.
  const auto all =
      make_communicator(world(), node_memory, {.check_collectives = true, .timeout_seconds = 10});
  const bool is_odd = all->rank() == odd;
  const Told& mine = is_odd ? other : usual;
  const std::string error = error_of([&] { mine.call(*all, ranks).wait(ranks.stream); });
  const size_t peer = is_odd ? (odd == 0 ? 1 : 0) : odd;
  CHECK_THAT(error, ContainsSubstring("collective number 1 differs: ") &&
                        ContainsSubstring(concat(name_of_rank(all->rank()), " calls ", mine.text,
                                                 ", ", name_of_rank(peer), " calls ",
                                                 (is_odd ? usual : other).text)));
}

template <class T>
Call all_reduce(size_t n, CallOptions options = {}) {
  return [=](Communicator& group, Ranks& ranks) {
    return group.all_reduce(ranks.stream, ranks.take<T>(Place::registered, n), options);
  };
}

Call broadcast(size_t n, size_t root) {
  return [=](Communicator& group, Ranks& ranks) {
    return group.broadcast(ranks.stream, ranks.take<float>(Place::registered, n), root, {});
  };
}

Call barrier() {
  return [=](Communicator& group, Ranks&) {
    group.barrier();
    return Work();
  };
}

TEST_CASE("a rank that calls something else is an error on every rank") {
  Ranks ranks;
  NodeMemory* const paths[] = {&ranks.node_memory, nullptr};
  const Told usual = {all_reduce<float>(120), "all_reduce of 120 fp32"};
  const std::pair<Told, Told> cases[] = {
      {usual, {all_reduce<float>(121), "all_reduce of 121 fp32"}},
      {usual, {all_reduce<float>(0), "all_reduce of 0 fp32"}},
      {usual, {all_reduce<double>(120), "all_reduce of 120 fp64"}},
      {usual,
       {all_reduce<float>(120, {.reduction = Reduction::max}), "all_reduce (max) of 120 fp32"}},
      {usual, {broadcast(120, 0), "broadcast of 120 fp32 with root 0"}},
      {usual, {barrier(), "barrier"}},
      {{broadcast(9, 0), "broadcast of 9 fp32 with root 0"},
       {broadcast(9, 5), "broadcast of 9 fp32 with root 5"}},
      {{all_reduce<float>(120, {.background = true}), usual.text},
       {all_reduce<float>(64, {.background = true}), "all_reduce of 64 fp32"}}};
  for (NodeMemory* path : paths) {
    for (size_t odd = 0; odd < world().size(); ++odd) {
      INFO((path == nullptr ? "by messages, rank " : "shared memory, rank ") << odd);
      for (const auto& [most, other] : cases) require_mismatch(path, ranks, odd, most, other);
    }
  }
}

TEST_CASE("a message that is not as long as its receiver expects is an error") {
  Ranks ranks;
  const auto all = make_communicator(world(), &ranks.node_memory);
  const bool sends = all->rank() % 2 == 0;
  for (size_t received : {40, 60}) {
    const std::string error = error_of([&] {
      const TensorView buffer = ranks.take<float>(Place::unregistered, sends ? 50 : received);
      if (sends) {
        all->send(ranks.stream, buffer, all->rank() + 1, {}).wait(ranks.stream);
      } else {
        all->recv(ranks.stream, buffer, all->rank() - 1, {}).wait(ranks.stream);
      }
    });
    if (sends) continue;
    CHECK_THAT(error, ContainsSubstring(
                          concat("recv of ", received, " fp32: ", name_of_rank(all->rank() - 1),
                                 " sends 200 bytes of send in fp32, ", world().name(), " expects ",
                                 4 * received, " bytes of send in fp32")));
  }
}

// So long that no rank is late by itself, but by a busy machine.
constexpr double kTimeout = 0.3;

// Makes a group of all ranks, in which `late` does not come while the others wait for it.
using MakeWorld = std::function<std::unique_ptr<Communicator>(Ranks&, const MpiOptions&)>;
void require_late(const MakeWorld& make, Ranks& ranks, Place place, const std::string& text) {
  for (size_t late = 0; late < world().size(); ++late) {
    INFO("late is rank " << late);
    // A group within the world: its ranks have numbers of their own.
    const auto all = make(ranks, {.timeout_seconds = kTimeout});
    const auto group = all->split(all->rank() / 4);
    const TensorView buffer = ranks.take<float>(place, 120);
    const auto call = [&] { group->all_reduce(ranks.stream, buffer, {}).wait(ranks.stream); };
    if (all->rank() != late && all->rank() / 4 == late / 4) {
      const std::string error = error_of(call);
      CHECK_THAT(error, ContainsSubstring("all_reduce of 120 fp32: after 0.3 s ") &&
                            ContainsSubstring(text) && ContainsSubstring(name_of_rank(late)) &&
                            !ContainsSubstring(world().name()));
    }
    mpi_check(MPI_Barrier(MPI_COMM_WORLD));  // it comes no more before the others have given up
  }
}

TEST_CASE("a rank that does not come is named by the others") {
  Ranks ranks;
  const auto shared = [](Ranks& r, const MpiOptions& options) {
    return make_communicator(world(), &r.node_memory, options);
  };
  const auto messages = [](Ranks&, const MpiOptions& options) {
    return make_communicator(world(), nullptr, options);
  };
  require_late(shared, ranks, Place::registered, "did not arrive");
  require_late(messages, ranks, Place::unregistered, "nothing has come from");
  const auto device = device_for_tests();
  if (!device) return;
  Ranks on_device(*device);
  const auto staged = [&](Ranks&, const MpiOptions& options) {
    return std::make_unique<Communicator>(
        StagedTransport::make(MpiTransport::make_world(world(), nullptr, options), *device));
  };
  require_late(staged, on_device, Place::device, "nothing has come from");
}

// Ranks wait for each other in a row. The one at its end is late, and it is in no group with the
// first.
TEST_CASE("a rank that waits itself is not blamed alone: who keeps all is named, too") {
  Ranks ranks;
  const bool shares = GENERATE(true, false);
  const auto all =
      make_communicator(world(), shares ? &ranks.node_memory : nullptr, {.timeout_seconds = 2});
  const size_t rank = all->rank(), late = all->size() - 1;
  std::vector<std::unique_ptr<Communicator>> pairs;  // of two ranks after each other
  for (size_t first = 0; first < late; ++first) {
    pairs.push_back(all->split(rank == first || rank == first + 1 ? 0 : 1));
  }
  const TensorView buffer =
      ranks.take<float>(shares ? Place::registered : Place::unregistered, 120);
  if (rank < late) {
    const std::string error =
        error_of([&] { pairs[rank]->all_reduce(ranks.stream, buffer, {}).wait(ranks.stream); });
    const std::string waits = rank + 1 == late   ? ""
                              : rank + 2 == late ? ", which waits for "
                                                 : ", which waits for others, in the end for ";
    CHECK_THAT(error, StartsWith(shares ? "collective number 1, all_reduce of 120 fp32: after 2 s "
                                        : "all_reduce of 120 fp32: after 2 s nothing has come") &&
                          ContainsSubstring(name_of_rank(rank + 1) + waits) &&
                          ContainsSubstring(name_of_rank(late)));
  }
  mpi_check(MPI_Barrier(MPI_COMM_WORLD));
}

TEST_CASE("a peer whose message does not come, or who does not take one, is named") {
  Ranks ranks;
  for (size_t late = 0; late < world().size(); ++late) {
    const auto all = make_communicator(world(), &ranks.node_memory,
                                       {.timeout_seconds = kTimeout, .synchronous_sends = true});
    const TensorView buffer = ranks.take<float>(Place::unregistered, 40);
    const size_t others = (late + 1) % all->size(), sends = (late + 2) % all->size();
    if (all->rank() == others) {
      const std::string error =
          error_of([&] { all->recv(ranks.stream, buffer, late, {}).wait(ranks.stream); });
      CHECK_THAT(error, ContainsSubstring("recv of 40 fp32: after 0.3 s nothing has come from " +
                                          name_of_rank(late)));
    } else if (all->rank() == sends) {
      const std::string error =
          error_of([&] { all->send(ranks.stream, buffer, late, {}).wait(ranks.stream); });
      CHECK_THAT(error, ContainsSubstring(
                            "send of 40 fp32: after 0.3 s what was sent has not been taken by " +
                            name_of_rank(late)));
    }
    mpi_check(MPI_Barrier(MPI_COMM_WORLD));
  }
}

// While an exception unwinds the stack a communicator must not wait for a peer that never comes.
TEST_CASE("an error ends background operations whose peers do not come") {
  // In shared memory. Given-up messages may still arrive, so by messages only a process that ends
  // next can give up; the system tests do that.
  Ranks ranks;
  for (size_t absent = 0; absent < world().size(); ++absent) {
    const std::string error = error_of([&] {
      const auto all = make_communicator(world(), &ranks.node_memory);
      Work first, second;
      if (all->rank() != absent) {
        first = all_reduce<float>(120, {.background = true})(*all, ranks);
        second = all_reduce<float>(120, {.background = true})(*all, ranks);
      }
      fail("something else went wrong");
    });
    CHECK_THAT(error, ContainsSubstring("something else went wrong"));
  }
}

TEST_CASE("arguments that cannot be are refused before anything moves") {
  Ranks ranks;
  const auto all = make_communicator(world(), &ranks.node_memory);
  const TensorView x = ranks.take<float>(Place::registered, 40);
  const auto refused = [&](Work (Communicator::*call)(Stream&, TensorView, size_t, CallOptions)) {
    return error_of([&] { ((*all).*call)(ranks.stream, x, 8, {}).wait(ranks.stream); });
  };
  CHECK_THAT(refused(&Communicator::broadcast), ContainsSubstring("no such root"));
  CHECK_THAT(refused(&Communicator::reduce), ContainsSubstring("no such root"));
  CHECK_THAT(refused(&Communicator::recv), ContainsSubstring("no such peer"));
  const std::string parts = error_of(
      [&] { all->reduce_scatter(ranks.stream, x.elements(0, {4}), x, {}).wait(ranks.stream); });
  CHECK_THAT(parts,
             ContainsSubstring("8 shards of 4 fp32 elements do not make a buffer of 40 fp32"));
  const std::string empty =
      error_of([&] { all->all_reduce(ranks.stream, {}, {}).wait(ranks.stream); });
  CHECK_THAT(empty, ContainsSubstring("all_reduce: no buffer"));
  REQUIRE(all->ledger().entries().empty());
}

}  // namespace
}  // namespace ladder::testing
