// Messages between the ranks of a group. Each message is checked before it is received.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/comm/call.h"
#include "common/comm/token_bucket.h"

namespace ladder {

// The label says what a message belongs to. It travels as MPI's tag, so it costs nothing.
struct MessageLabel {
  Collective collective = Collective::barrier;
  DType dtype = DType::fp32;
  Reduction reduction = Reduction::sum;
  bool is_description = false;  // the message describes the sender's call and has no data
  bool more_follows = false;    // further pieces of the same vector come after this one
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
  };
  // Collective over `ranks`. `names` has the name of each rank, such as "rank 3 on hostname".
  // `names` and `given_up` must outlive this object.
  Messages(MPI_Comm ranks, const std::vector<std::string>& names, const Options& options,
           const std::atomic<bool>& given_up);
  ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  // A message to or from `peer`, a rank of the group, and the host memory of its data.
  struct Part {
    size_t peer;
    void* data;
    size_t bytes;
  };
  // Sends `out` and receives `in`, which has at most one message from each rank. Returns when all
  // of them have ended, and adds the bytes that were sent to `sent`. `call` is quoted in errors.
  // Throws Error if a message has another length or label than expected, naming both and the ranks;
  // after the timeout, naming the ranks that are late; and once `given_up` is set. One thread may
  // receive while others send; apart from that it is not thread-safe.
  void transfer(const Call& call, const MessageLabel& label, std::span<const Part> out,
                std::span<const Part> in, size_t& sent);

 private:
  // Starts to receive `part` if it has arrived, and adds its request. Returns whether it has.
  bool try_receive(const Call& call, const MessageLabel& label, const Part& part,
                   std::vector<MPI_Request>& requests) const;
  [[noreturn]] void fail_unexpected(const Call& call, const MessageLabel& label, const Part& part,
                                    const MPI_Status& status) const;
  // Throws the Error of a timeout. `not_taken` are messages that were not received by their peers,
  // `not_come` those that have not arrived from them.
  [[noreturn]] void fail_late(const Call& call, std::span<const Part> not_taken,
                              std::span<const Part> not_come) const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  const std::vector<std::string>& names_;
  size_t rank_ = 0;
  Options options_;
  const std::atomic<bool>& given_up_;
};

}  // namespace ladder
