#include "lessons/00_collectives/execute.h"

#include "kernels/elementwise.h"

namespace ladder {
namespace {

TensorView elements(const TensorView& vector, Elements range) {
  return vector.elements(range.begin, {range.size()});
}

bool overlap(Elements a, Elements b) { return a.begin < b.end && b.begin < a.end; }

}  // namespace

void execute(Communicator& ranks, Stream& stream, const std::vector<Step>& steps, TensorView vector,
             TensorView scratch) {
  for (const Step& step : steps) {
    Work send;
    if (step.send) {
      send = ranks.send(stream, elements(vector, step.send->range), step.send->peer,
                        {.background = true});
    }
    if (step.receive) {
      const auto& [peer, range] = *step.receive;
      const bool in_place = !step.adds && !(step.send && overlap(step.send->range, range));
      const TensorView target = elements(vector, range);
      const TensorView received = in_place ? target : elements(scratch, range);
      ranks.recv(stream, received, peer, {}).wait(stream);
      send.wait(stream);  // the elements that were sent may change only now
      if (step.adds) add(stream, target, target, received);
      if (!step.adds && !in_place) copy(stream, target, received);
    }
    send.wait(stream);
  }
}

}  // namespace ladder
