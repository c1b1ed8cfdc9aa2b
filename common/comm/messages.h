// Messages between the ranks of a group. Each message is checked before it is received.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/comm/call.h"
#include "common/comm/machines.h"
#include "common/comm/token_bucket.h"

namespace ladder {

class MpiWorld;

// The label says what a message belongs to. It travels as MPI's tag, so it costs nothing.
struct MessageLabel {
  Collective collective = Collective::barrier;
  DType dtype = DType::fp32;
  Reduction reduction = Reduction::sum;
  bool is_description = false;  // the message describes the sender's call and has no data
  bool more_follows = false;    // further segments of the same vector come after this one
  bool is_carried = false;      // the sender is the receiver's carrier (machines.h), or the reverse
  friend bool operator==(const MessageLabel&, const MessageLabel&) = default;
};

// Messages sends and receives, and refuses messages that are not the expected ones. Open MPI 4.1
// can write a long message beyond the end of a short buffer that waits for it, because it copies
// with the sender's length. So no buffer waits here. A matched probe finds each message that has
// arrived, and the message is received only if its length and its label are as expected.
class Messages {
 public:
  struct Options {
    double timeout_seconds = 0;            // 0 = wait for ever
    bool synchronous_sends = false;        // for tests: a send ends only when its receiver has come
    std::shared_ptr<TokenBucket> network;  // slows messages down; null: as fast as they go
    const MpiWorld* world = nullptr;       // knows whom late ranks wait for; null: nobody does
  };
  // Collective over `ranks`. `names` has the name of each rank, such as "rank 3 on hostname".
  // `names`, `machines` and `given_up` must outlive this object.
  Messages(MPI_Comm ranks, const std::vector<std::string>& names, const Machines& machines,
           const Options& options, const std::atomic<bool>& given_up);
  ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  // A message to or from `peer`, a rank of the group, and the host memory of its data.
  struct Part {
    size_t peer;
    void* data;
    size_t bytes;
  };
  // Messages that were started together.
  struct Transfer {
    MessageLabel label;
    std::vector<Part> out, not_come;    // what was sent, and what has not arrived yet
    std::vector<MPI_Request> requests;  // those of `out`, then those of messages that have arrived
    size_t ended = 0;                   // the requests before this one have ended
  };
  // Transfers that are under way, the oldest first.
  using Transfers = std::deque<Transfer>;

  // Begins to send `out` and to receive `in`, which has at most one message from each rank. Adds
  // the transfer to `under_way`, and what it sends to `sent`. The memory belongs to the transfer
  // until it has ended. `call` is quoted in errors. One thread may receive while others send; apart
  // from that it is not thread-safe.
  void start(Transfers& under_way, const Call& call, const MessageLabel& label,
             std::span<const Part> out, std::span<const Part> in, Moved& sent);
  // Waits until the oldest transfer has ended, and removes it. Meanwhile it receives what arrives
  // for the others. Throws Error if a message has another length or label than expected, naming
  // both and the ranks; after the timeout, naming the ranks that are late; and once `given_up` is
  // set. REQUIRES: all transfers under way between two ranks were started in the same order there.
  void finish_oldest(Transfers& under_way, const Call& call);
  // Starts a transfer and waits for its end.
  void transfer(const Call& call, const MessageLabel& label, std::span<const Part> out,
                std::span<const Part> in, Moved& sent) {
    Transfers one;
    start(one, call, label, out, in, sent);
    finish_oldest(one, call);
  }

 private:
  // Starts to receive what has arrived of the transfers. Messages of a peer come in their order, so
  // it looks for a message only if the peer's earlier ones have come.
  void receive_arrived(Transfers& under_way, const Call& call) const;
  // Starts to receive `part` if it has arrived, and adds its request. Returns whether it has.
  bool try_receive(const Call& call, const MessageLabel& label, const Part& part,
                   std::vector<MPI_Request>& requests) const;
  [[noreturn]] void fail_unexpected(const Call& call, const MessageLabel& label, const Part& part,
                                    const MPI_Status& status) const;
  // Throws the Error of a timeout, with the ranks that have not received their messages of the
  // transfer, and those whose messages have not arrived.
  [[noreturn]] void fail_late(const Call& call, const Transfer& transfer) const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  const std::vector<std::string>& names_;
  const Machines& machines_;
  size_t rank_ = 0;
  Options options_;
  const std::atomic<bool>& given_up_;
};

}  // namespace ladder
