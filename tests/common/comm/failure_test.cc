// Calls that do not match, and ranks that do not come: an error that names both, on every rank.
#include <catch2/catch.hpp>
#include <functional>

#include "tests/common/comm/ranks.h"

namespace ladder::testing {
namespace {

using Catch::Matchers::Contains;

using Call = std::function<Work(Communicator& group, Ranks& ranks)>;

constexpr size_t kOdd = 3;  // the rank that calls something else

// What a rank's call ends with; empty if with nothing.
std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Every rank but kOdd makes the call `usual`, which is `usual_text`; kOdd makes `odd`. All must end
// with an error that says who called what. After it the group is of no more use: all ranks destroy
// it together, as always.
void require_mismatch(NodeMemory* node_memory, Ranks& ranks, const Call& usual,
                      const std::string& usual_text, const Call& odd, const std::string& odd_text) {
  const auto all = MpiCommunicator::make_world(world(), node_memory, {.check_collectives = true});
  const bool is_odd = all->rank() == kOdd;
  const std::string error =
      error_of([&] { (is_odd ? odd : usual)(*all, ranks).wait(ranks.stream); });
  const size_t peer = is_odd ? 0 : kOdd;
  CHECK_THAT(error, Contains(concat("rank ", all->rank(), " of the group calls ",
                                    is_odd ? odd_text : usual_text, ", rank ", peer, " calls ",
                                    is_odd ? usual_text : odd_text)));
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
  for (NodeMemory* path : paths) {
    INFO((path == nullptr ? "by messages" : "shared memory"));
    const auto mismatch = [&](const Call& usual, const std::string& usual_text, const Call& odd,
                              const std::string& odd_text) {
      require_mismatch(path, ranks, usual, usual_text, odd, odd_text);
    };
    const Call usual = all_reduce<float>(120);
    const std::string text = "all_reduce of 120 fp32";
    mismatch(usual, text, all_reduce<float>(121), "all_reduce of 121 fp32");
    mismatch(usual, text, all_reduce<float>(0), "all_reduce of 0 fp32");
    mismatch(usual, text, all_reduce<double>(120), "all_reduce of 120 fp64");
    mismatch(usual, text, all_reduce<float>(120, {.reduction = Reduction::max}),
             "all_reduce (max) of 120 fp32");
    mismatch(usual, text, broadcast(120, 0), "broadcast of 120 fp32 with root 0");
    mismatch(usual, text, barrier(), "barrier");
    mismatch(broadcast(9, 0), "broadcast of 9 fp32 with root 0", broadcast(9, 5),
             "broadcast of 9 fp32 with root 5");
    mismatch(all_reduce<float>(120, {.background = true}), text,
             all_reduce<float>(64, {.background = true}), "all_reduce of 64 fp32");
  }
}

TEST_CASE("a message that is not as long as its receiver expects is an error") {
  Ranks ranks;
  const auto all = MpiCommunicator::make_world(world(), &ranks.node_memory);
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
    CHECK_THAT(error, Contains(received < 50 ? "truncated" : "the message has only 50"));
  }
}

TEST_CASE("a rank that does not come is named by the others") {
  Ranks ranks;
  const auto all =
      MpiCommunicator::make_world(world(), &ranks.node_memory, {.timeout_seconds = 0.5});
  if (all->rank() != kOdd) {
    const std::string error =
        error_of([&] { all_reduce<float>(120)(*all, ranks).wait(ranks.stream); });
    CHECK_THAT(error, Contains("collective number 1, all_reduce of 120 fp32: after 0.5 s rank 3 of "
                               "the group did not arrive"));
  }
  mpi_check(MPI_Barrier(MPI_COMM_WORLD));  // it comes no more before the others have given up
}

TEST_CASE("a peer whose message does not come is named") {
  Ranks ranks;
  const auto all =
      MpiCommunicator::make_world(world(), &ranks.node_memory, {.timeout_seconds = 0.5});
  const TensorView buffer = ranks.take<float>(Place::unregistered, 40);
  if (all->rank() == 0) {
    const std::string error =
        error_of([&] { all->recv(ranks.stream, buffer, kOdd, {}).wait(ranks.stream); });
    CHECK_THAT(error, Contains("recv from rank 3 of the group: not done after 0.5 s"));
  }
  mpi_check(MPI_Barrier(MPI_COMM_WORLD));
  // What rank 0 has given up still takes its message.
  if (all->rank() == kOdd) all->send(ranks.stream, buffer, 0, {}).wait(ranks.stream);
  mpi_check(MPI_Barrier(MPI_COMM_WORLD));
}

// While an exception unwinds the stack a communicator must not wait for a peer that never comes.
TEST_CASE("an error ends background operations whose peers do not come") {
  // In shared memory. Given-up messages may still arrive, so by messages only a process that ends
  // next can give up; the system tests do that.
  Ranks ranks;
  const std::string error = error_of([&] {
    const auto all = MpiCommunicator::make_world(world(), &ranks.node_memory);
    Work first, second;
    if (all->rank() != kOdd) {
      first = all_reduce<float>(120, {.background = true})(*all, ranks);
      second = all_reduce<float>(120, {.background = true})(*all, ranks);
    }
    fail("something else went wrong");
  });
  CHECK_THAT(error, Contains("something else went wrong"));
}

TEST_CASE("arguments that cannot be are refused before anything moves") {
  Ranks ranks;
  const auto all = MpiCommunicator::make_world(world(), &ranks.node_memory);
  const TensorView x = ranks.take<float>(Place::registered, 40);
  const auto refused = [&](Work (Communicator::*call)(Stream&, TensorView, size_t, CallOptions)) {
    return error_of([&] { ((*all).*call)(ranks.stream, x, 8, {}).wait(ranks.stream); });
  };
  CHECK_THAT(refused(&Communicator::broadcast), Contains("no such root"));
  CHECK_THAT(refused(&Communicator::reduce), Contains("no such root"));
  CHECK_THAT(refused(&Communicator::recv), Contains("no such peer"));
  const std::string parts = error_of(
      [&] { all->reduce_scatter(ranks.stream, x.elements(0, {4}), x, {}).wait(ranks.stream); });
  CHECK_THAT(parts, Contains("8 shards of 4 fp32 elements do not make a buffer of 40 fp32"));
  const std::string empty =
      error_of([&] { all->all_reduce(ranks.stream, {}, {}).wait(ranks.stream); });
  CHECK_THAT(empty, Contains("all_reduce: no buffer"));
  REQUIRE(all->ledger().entries().empty());
}

}  // namespace
}  // namespace ladder::testing
