// Messages of several transfers that are under way at once.
#include "common/comm/messages.h"

#include <atomic>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/delays.h"
#include "tests/mpi_main.h"

namespace ladder::testing {
namespace {

void tell(int rank) { MPI_Send(nullptr, 0, MPI_BYTE, rank, 0, MPI_COMM_WORLD); }
void wait_for(int rank) {
  MPI_Recv(nullptr, 0, MPI_BYTE, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// Rank 0 waits for a message of rank 1, and in a second transfer for one of rank 2 and another one
// of rank 1. It has just not found the first message of rank 1, and sees that of rank 2. At that
// moment rank 1 sends both of its messages, which look alike. The next one that rank 0 looks for
// is the second message of rank 1.
TEST_CASE("a message that comes between two looks for it goes to the older transfer") {
  using Part = Messages::Part;
  const Call call = {.collective = Collective::all_gather, .elements = 3};
  const MessageLabel label = {.collective = call.collective, .more_follows = true};
  const Machines machines(std::vector<size_t>(world().size(), 0), world().rank());
  const std::atomic<bool> given_up = false;
  Messages messages(MPI_COMM_WORLD, world().names(), machines, {}, given_up);
  Messages::Transfers under_way;
  Moved sent;
  const auto send = [&](int value) {
    const Part part = {0, &value, sizeof value};
    messages.transfer(call, label, {&part, 1}, {}, sent);
  };
  for (int round = 0; round < 10; ++round) {
    if (world().rank() == 0) {
      int first = 0, second = 0, other = 0;
      bool has_asked = false;
      const Part of_first = {1, &first, sizeof first};
      const Part of_second[] = {{2, &other, sizeof other}, {1, &second, sizeof second}};
      set_action("messages: between probe and receive", [&has_asked] {
        if (std::exchange(has_asked, true)) return;
        tell(1);
        wait_for(1);
      });
      messages.start(under_way, call, label, {}, {&of_first, 1}, sent);
      tell(2);
      messages.start(under_way, call, label, {}, of_second, sent);
      messages.finish_oldest(under_way, call);
      messages.finish_oldest(under_way, call);
      set_action("", nullptr);
      CHECK(first == 10 + round);
      CHECK(second == 20 + round);
      CHECK(other == 30 + round);
    } else if (world().rank() == 1) {
      wait_for(0);
      send(10 + round);
      send(20 + round);
      tell(0);
    } else {
      wait_for(0);
      send(30 + round);
    }
  }
}

}  // namespace
}  // namespace ladder::testing
