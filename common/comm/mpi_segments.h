// What the operations of MpiTransport that send messages have in common.
#pragma once

#include <vector>

#include "common/comm/mpi_transport.h"

namespace ladder {

// A request that is being carried out.
struct MpiTransport::Operation {
  Operation(const Request& request_, const Call& call_)
      : request(request_),
        call(call_),
        label{.collective = call.collective, .dtype = call.dtype, .reduction = call.reduction} {}

  const Request& request;
  Call call;
  MessageLabel label;             // the label of its next messages
  Moved moved;                    // what this rank has moved so far
  Messages::Transfers under_way;  // its exchanges that have been started
};

template <class... Stages>
void MpiTransport::for_segments(Operation& operation, size_t n, size_t segment, Stages... stages) {
  const size_t num_segments = std::max<size_t>((n + segment - 1) / segment, 1);
  const auto run = [&](size_t index, const auto& stage) {
    if (index >= num_segments) return;  // not begun yet, or there are no more; see below
    const size_t first = index * segment;
    operation.label.more_follows = index + 1 < num_segments;
    stage(first, std::min(segment, n - first));
  };
  for (size_t time = 0; time < num_segments + sizeof...(stages) - 1; ++time) {
    size_t stage = 0;  // where time < stage the difference is a huge number
    (run(time - stage++, stages), ...);
  }
}

template <class SendAt, class RecvAt>
void MpiTransport::start_exchange(Operation& operation, SendAt send, RecvAt recv) {
  std::vector<Messages::Part> out, in;
  const auto add = [&](std::vector<Messages::Part>& parts, const auto& view, size_t peer) {
    if (view.num_elements() == 0 && operation.call.elements > 0) return;
    parts.push_back({peer, const_cast<void*>(view.data()), view.num_bytes()});
  };
  // Each rank visits its peers beginning with the next rank, so that not all send to the same peer
  // at once.
  for (size_t step = 1; step < size(); ++step) {
    const size_t peer = (rank() + step) % size();
    add(out, send(peer), peer);
    add(in, recv(peer), peer);
  }
  messages_.start(operation.under_way, operation.call, operation.label, out, in, operation.moved);
}

inline void MpiTransport::finish_exchange(Operation& operation) {
  messages_.finish_oldest(operation.under_way, operation.call);
}

template <class SendAt, class RecvAt>
void MpiTransport::exchange(Operation& operation, SendAt send, RecvAt recv) {
  start_exchange(operation, send, recv);
  finish_exchange(operation);
}

}  // namespace ladder
