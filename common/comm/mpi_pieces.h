// What the operations of MpiTransport that send messages have in common.
#pragma once

#include <vector>

#include "common/comm/mpi_transport.h"

namespace ladder {

template <class Body>
void MpiTransport::for_pieces(Operation& operation, size_t n, size_t piece, Body body) {
  size_t first = 0;
  do {
    const size_t count = std::min(piece, n - first);
    operation.label.more_follows = first + count < n;
    body(first, count);
    first += count;
  } while (first < n);
}

template <class SendAt, class RecvAt>
void MpiTransport::exchange(Operation& operation, SendAt send, RecvAt recv) {
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
  messages_.transfer(operation.call, operation.label, out, in, operation.moved);
}

}  // namespace ladder
