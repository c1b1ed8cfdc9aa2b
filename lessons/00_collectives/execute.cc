#include "lessons/00_collectives/execute.h"

#include "kernels/elementwise.h"

namespace ladder {
namespace {

TensorView elements(const TensorView& vector, Elements range) {
  return vector.elements(range.begin, {range.size()});
}

bool overlap(Elements a, Elements b) { return a.begin < b.end && b.begin < a.end; }

}  // namespace

void execute(Communicator& ranks, Stream& stream, const std::vector<Exchange>& exchanges,
             TensorView vector, TensorView scratch) {
  for (const Exchange& exchange : exchanges) {
    Work send;
    if (exchange.send) {
      send = ranks.send(stream, elements(vector, exchange.send->range), exchange.send->peer,
                        {.background = true});
    }
    if (exchange.receive) {
      const auto& [peer, range] = *exchange.receive;
      const bool in_place =
          !exchange.adds && !(exchange.send && overlap(exchange.send->range, range));
      const TensorView target = elements(vector, range);
      const TensorView received = in_place ? target : elements(scratch, range);
      ranks.recv(stream, received, peer, {}).wait(stream);
      send.wait(stream);  // the elements that were sent may change only now
      if (exchange.adds) add(stream, target, target, received);
      if (!exchange.adds && !in_place) copy(stream, target, received);
    }
    send.wait(stream);
  }
}

}  // namespace ladder
