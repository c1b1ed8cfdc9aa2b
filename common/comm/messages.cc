#include "common/comm/messages.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "common/comm/delay.h"
#include "common/comm/mpi_world.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/clock.h"

namespace ladder {
namespace {

// A label is packed into a tag, of which MPI promises 15 bits. These are the first bits of its
// parts.
constexpr int kDTypeBit = 4, kReductionBit = 8, kDescriptionBit = 9, kMoreBit = 10,
              kCarriedBit = 11;

int tag_of(const MessageLabel& label) {
  return static_cast<int>(label.collective) | static_cast<int>(label.dtype) << kDTypeBit |
         static_cast<int>(label.reduction) << kReductionBit |
         static_cast<int>(label.is_description) << kDescriptionBit |
         static_cast<int>(label.more_follows) << kMoreBit |
         static_cast<int>(label.is_carried) << kCarriedBit;
}

MessageLabel label_of(int tag) {
  const auto bits = [tag](int from, int to) { return tag >> from & ((1 << (to - from)) - 1); };
  return {.collective = static_cast<Collective>(bits(0, kDTypeBit)),
          .dtype = static_cast<DType>(bits(kDTypeBit, kReductionBit)),
          .reduction = static_cast<Reduction>(bits(kReductionBit, kDescriptionBit)),
          .is_description = bits(kDescriptionBit, kMoreBit) != 0,
          .more_follows = bits(kMoreBit, kCarriedBit) != 0,
          .is_carried = bits(kCarriedBit, kCarriedBit + 1) != 0};
}

// "484 bytes of all_reduce in fp32"
std::string describe(size_t bytes, const MessageLabel& label) {
  if (label.is_description) return "what it calls";
  return concat(bytes, " bytes of ", name_of(label.collective),
                label.reduction == Reduction::max ? " (max)" : "", " in ", name_of(label.dtype),
                label.more_follows ? " and more after them" : "");
}

// What a thread does between two looks for messages. (MPI moves messages only while somebody
// looks.) At first it does nothing, because most messages arrive soon. Then it yields to other
// threads. After 1 ms, which is longer than copying a segment takes, it is waiting for a rank that
// still computes, and that may last. Perhaps it waits in the background: if it went on yielding, it
// would take every second time slice from the thread that computes here. So it sleeps, at first for
// 50 us at a time. A thread that wakes so often also slows down the one that computes, and several
// may wait for a second. So the longer it has waited the longer it sleeps: for a 32nd of that time,
// but at most 1 ms.
class Patience {
 public:
  // Returns the seconds since the first rounds.
  double pause() {
    constexpr int kSpins = 100;
    constexpr double kYieldSeconds = 1e-3;
    if (++rounds_ <= kSpins) return 0;
    if (rounds_ == kSpins + 1) begin_ = Clock::now();
    const double waited = seconds_since(begin_);
    if (waited < kYieldSeconds) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(
          std::chrono::duration<double>(std::clamp(waited / 32, 50e-6, 1e-3)));
    }
    return waited;
  }

 private:
  size_t rounds_ = 0;
  Time begin_;
};

}  // namespace

Messages::Messages(MPI_Comm ranks, const std::vector<std::string>& names, const Machines& machines,
                   const Options& options, const std::atomic<bool>& given_up)
    : names_(names), machines_(machines), options_(options), given_up_(given_up) {
  mpi_check(MPI_Comm_dup(ranks, &comm_));
  int rank = 0;
  mpi_check(MPI_Comm_rank(comm_, &rank));
  rank_ = static_cast<size_t>(rank);
}

Messages::~Messages() {
  // Freeing waits for the other ranks. While an exception unwinds they may never come; the program
  // is about to end all of them.
  if (std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
}

void Messages::start(Transfers& under_way, const Call& call, const MessageLabel& label,
                     std::span<const Part> out, std::span<const Part> in, Moved& sent) {
  Transfer& transfer = under_way.emplace_back();
  transfer = {.label = label,
              .out = {out.begin(), out.end()},
              .not_come = {in.begin(), in.end()},
              .requests = {}};
  const auto send = options_.synchronous_sends ? MPI_Issend : MPI_Isend;
  maybe_delay("messages: before they are sent");
  for (const Part& part : out) {
    if (options_.network) options_.network->send(part.bytes, given_up_);
    mpi_check(send(part.data, static_cast<int>(part.bytes), MPI_BYTE, static_cast<int>(part.peer),
                   tag_of(label), comm_, &transfer.requests.emplace_back()));
    sent += {.bytes = part.bytes, .between = machines_.is_here(part.peer) ? 0 : part.bytes};
  }
  receive_arrived(under_way, call);
}

void Messages::finish_oldest(Transfers& under_way, const Call& call) {
  Transfer& oldest = under_way.front();
  Patience patience;
  while (true) {
    receive_arrived(under_way, call);
    for (int done = 1; oldest.ended < oldest.requests.size() && done;
         oldest.ended += static_cast<size_t>(done)) {
      mpi_check(MPI_Test(&oldest.requests[oldest.ended], &done, MPI_STATUS_IGNORE));
    }
    if (oldest.not_come.empty() && oldest.ended == oldest.requests.size()) break;
    check(!given_up_, "given up after an error");
    const double waited = patience.pause();
    const double timeout = options_.timeout_seconds;
    if (timeout > 0 && options_.world != nullptr && waited > timeout / 8) {
      const Part* const late = !oldest.not_come.empty()           ? &oldest.not_come.front()
                               : oldest.ended < oldest.out.size() ? &oldest.out[oldest.ended]
                                                                  : nullptr;
      if (late != nullptr) options_.world->note_wait(names_[late->peer]);
    }
    if (timeout > 0 && waited >= timeout) fail_late(call, oldest);
  }
  under_way.pop_front();
}

void Messages::receive_arrived(Transfers& under_way, const Call& call) const {
  std::vector<size_t> waited_for;  // peers
  for (Transfer& transfer : under_way) {
    std::erase_if(transfer.not_come, [&](const Part& part) {
      if (std::ranges::count(waited_for, part.peer) > 0) return false;
      if (try_receive(call, transfer.label, part, transfer.requests)) return true;
      waited_for.push_back(part.peer);
      return false;
    });
  }
}

bool Messages::try_receive(const Call& call, const MessageLabel& label, const Part& part,
                           std::vector<MPI_Request>& requests) const {
  int has_come = 0, bytes = 0;
  MPI_Message message;
  MPI_Status status;
  mpi_check(
      MPI_Improbe(static_cast<int>(part.peer), MPI_ANY_TAG, comm_, &has_come, &message, &status));
  if (!has_come) return false;
  maybe_delay("messages: between probe and receive");
  mpi_check(MPI_Get_count(&status, MPI_BYTE, &bytes));
  if (static_cast<size_t>(bytes) != part.bytes || status.MPI_TAG != tag_of(label)) {
    fail_unexpected(call, label, part, status);
  }
  mpi_check(MPI_Imrecv(part.data, bytes, MPI_BYTE, &message, &requests.emplace_back()));
  return true;
}

void Messages::fail_unexpected(const Call& call, const MessageLabel& label, const Part& part,
                               const MPI_Status& status) const {
  const MessageLabel theirs = label_of(status.MPI_TAG);
  if (theirs.is_carried != label.is_carried && theirs.collective == label.collective) {
    const auto [with, without] =
        theirs.is_carried ? std::pair(part.peer, rank_) : std::pair(rank_, part.peer);
    fail(concat(to_string(call), ": all ranks on the machine of ", names_[with],
                " have registered their buffers, those on the machine of ", names_[without],
                " have not; either all ranks register the buffers of a call, or none does"));
  }
  int bytes = 0;
  mpi_check(MPI_Get_count(&status, MPI_BYTE, &bytes));
  fail(concat(to_string(call), ": ", names_[part.peer], " sends ",
              describe(static_cast<size_t>(bytes), theirs), ", ", names_[rank_], " expects ",
              describe(part.bytes, label)));
}

void Messages::fail_late(const Call& call, const Transfer& transfer) const {
  std::vector<Part> not_taken;
  for (size_t i = transfer.ended; i < transfer.out.size(); ++i) {
    int done = 0;
    MPI_Request request = transfer.requests[i];
    mpi_check(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (!done) not_taken.push_back(transfer.out[i]);
  }
  const auto names_of = [&](std::span<const Part> parts) {
    std::string text;
    for (const Part& part : parts) {
      const std::string& name = names_[part.peer];
      text += text.empty() ? "" : ", ";
      text += options_.world == nullptr ? name
                                        : options_.world->late_name(name, options_.timeout_seconds);
    }
    return text;
  };
  std::string late;
  if (!transfer.not_come.empty()) {
    late += concat("nothing has come from ", names_of(transfer.not_come));
  }
  if (!not_taken.empty()) {
    late += concat(late.empty() ? "" : "; ", "what was sent has not been taken by ",
                   names_of(not_taken));
  }
  throw Error(concat(to_string(call), ": after ", options_.timeout_seconds, " s ", late));
}

}  // namespace ladder
