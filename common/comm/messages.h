// Messages between the ranks of a group. Each is looked at before it is received.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "common/comm/call.h"

namespace ladder {

// What a message belongs to. It travels with the message, as MPI's tag, so that it costs nothing.
struct MessageLabel {
  Collective collective = Collective::barrier;
  DType dtype = DType::fp32;
  Reduction reduction = Reduction::sum;
  bool is_description = false;  // of the call, to be compared: no data
  bool more_follows = false;    // further pieces of the same vector
  friend bool operator==(const MessageLabel&, const MessageLabel&) = default;
};

// Open MPI does not keep a long message from being written beyond a short buffer that is waiting
// for it (4.1: the copy out of the sender's memory has the sender's length). So no buffer waits
// here: what has come is found by a matched probe, which takes no other message in its place, and
// is received only where its length and its label are those that are expected.
class Messages {
 public:
  struct Options {
    double timeout_seconds = 0;      // 0 = wait for ever
    bool synchronous_sends = false;  // a send ends when its receiver has come: for tests
  };
  // `names` of the ranks, such as "rank 3 on hostname"; they and `given_up` must outlive this.
  // Collective over `ranks`.
  Messages(MPI_Comm ranks, const std::vector<std::string>& names, const Options& options,
           const std::atomic<bool>& given_up);
  ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  // A message to or from one rank of the group.
  struct Part {
    size_t peer;
    void* data;
    size_t bytes;
  };
  // Sends `out` and receives `in`, at most one from each rank; returns when all have ended. Adds
  // the bytes that are sent to `sent`. `call` is for errors. Not thread-safe, but for calls that
  // only send beside one that only receives. Throws Error where a message has another length or
  // label than expected, naming both and the ranks; after the timeout, naming the ranks that are
  // late; and once `given_up` is set.
  void transfer(const Call& call, const MessageLabel& label, std::span<const Part> out,
                std::span<const Part> in, size_t& sent);

 private:
  // Starts to receive `part` if it has come.
  bool try_receive(const Call& call, const MessageLabel& label, const Part& part,
                   std::vector<MPI_Request>& requests) const;
  [[noreturn]] void fail_unexpected(const Call& call, const MessageLabel& label, const Part& part,
                                    const MPI_Status& status) const;
  // `not_taken` and `not_come`: messages that have not ended.
  [[noreturn]] void fail_late(const Call& call, std::span<const Part> not_taken,
                              std::span<const Part> not_come) const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  const std::vector<std::string>& names_;
  size_t rank_ = 0;
  Options options_;
  const std::atomic<bool>& given_up_;
};

}  // namespace ladder
