#include "common/comm/agreed_steps.h"

#include <chrono>
#include <exception>

#include "common/comm/delay.h"

namespace ladder {
namespace {

constexpr int kNumberBits = 8;
constexpr int kName = 0, kReceived = 1;  // tags of messages

struct Message {
  uint64_t is_end, name;
};

}  // namespace

AgreedSteps::AgreedSteps(MpiWorld* world)
    : world_(world), board_(world == nullptr ? &own_ : &world->board()) {
  if (world_ == nullptr || world_->num_nodes() == 1) return;
  const auto limit = world_->limit_wait();
  mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
  if (world_->node_rank() == 0) {
    listener_.emplace(std::chrono::milliseconds(100), [this] { listen(); });
  }
}

AgreedSteps::~AgreedSteps() {
  listener_.reset();
  if (comm_ != MPI_COMM_NULL && std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
}

bool AgreedSteps::write(Word word, uint64_t name) {
  std::atomic<uint64_t>& shared = board_->*word;
  uint64_t old = shared;
  while (old >> kNumberBits < name >> kNumberBits) {
    if (shared.compare_exchange_weak(old, name)) return true;
  }
  return false;
}

void AgreedSteps::name(Word word, int64_t step, int number) {
  const Message message = {
      word == kEnd, static_cast<uint64_t>(step) << kNumberBits | static_cast<uint64_t>(number)};
  maybe_delay("agreed steps: before it is named");
  if (!write(word, message.name) || comm_ == MPI_COMM_NULL) return;
  const auto for_other_machines = [&](const auto& act) {
    const std::vector<size_t>& machine_of = world_->machine_of();
    for (size_t r = 0; r < machine_of.size(); ++r) {
      if (machine_of[r] == r && machine_of[world_->rank()] != r)
        mpi_check(act(static_cast<int>(r)));
    }
  };
  for_other_machines(
      [&](int first) { return MPI_Send(&message, 2, MPI_UINT64_T, first, kName, comm_); });
  for_other_machines([&](int first) {
    return MPI_Recv(nullptr, 0, MPI_BYTE, first, kReceived, comm_, MPI_STATUS_IGNORE);
  });
}

std::optional<int> AgreedSteps::find(Word word, int64_t step) {
  maybe_delay("agreed steps: before it looks");
  const uint64_t name = board_->*word;
  if (name >> kNumberBits != static_cast<uint64_t>(step)) return std::nullopt;
  return static_cast<int>(name & ((1U << kNumberBits) - 1));
}

void AgreedSteps::listen() {
  while (true) {
    int has_come = 0;
    MPI_Status from;
    Message message;
    mpi_check(MPI_Iprobe(MPI_ANY_SOURCE, kName, comm_, &has_come, &from));
    if (has_come == 0) return;
    mpi_check(MPI_Recv(&message, 2, MPI_UINT64_T, from.MPI_SOURCE, kName, comm_, &from));
    maybe_delay("agreed steps: before it is passed on");
    write(message.is_end != 0 ? kEnd : kSave, message.name);
    mpi_check(MPI_Send(nullptr, 0, MPI_BYTE, from.MPI_SOURCE, kReceived, comm_));
  }
}

}  // namespace ladder
