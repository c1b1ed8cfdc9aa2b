// Calls by messages whose lengths differ, compared by nobody: an error that names both, and nothing
// is written beyond a buffer.
#include <atomic>
#include <chrono>
#include <functional>
#include <regex>
#include <thread>

#include "tests/catch.h"
#include "tests/common/comm/ranks.h"

namespace ladder::testing {
namespace {

// Tells all ranks that one of them has seen the difference, and then gives up what its rank waits
// for: a peer that comes no more.
class Alarm {
 public:
  Alarm(Communicator& ranks, NodeMemory& node_memory) : ranks_(ranks), node_memory_(node_memory) {
    new (flag()) std::atomic<bool>(false);
    mpi_check(MPI_Barrier(MPI_COMM_WORLD));
    thread_ = std::thread([this] {
      // Where nobody sees it the test is to fail, not to hang: so much longer than a call takes.
      for (int ms = 0; ms < 10'000 && !over_ && !rung(); ++ms) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (!over_) ranks_.give_up();
    });
  }
  ~Alarm() {
    over_ = true;
    thread_.join();
  }
  // Gives up here as well. When all ranks have seen a difference, the test may be over before the
  // thread looks, and a send in the background would wait for a peer for ever.
  void ring() {
    *flag() = true;
    ranks_.give_up();
  }

 private:
  bool rung() const { return *flag(); }
  // On rank 0, in the memory that all tests share.
  std::atomic<bool>* flag() const {
    return static_cast<std::atomic<bool>*>(node_memory_.at({0, 0}, 0));
  }

  Communicator& ranks_;
  NodeMemory& node_memory_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

// What one call needs: a buffer of `elements` for each rank of the group.
using Call = std::function<Work(Communicator& all, Stream& stream, const TensorView& buffer)>;

struct Operation {
  const char* name;
  Call call;
  size_t parts;  // shards that make up the buffer: lengths are multiples of it
};

const TensorView part_of(const Communicator& all, const TensorView& buffer) {
  const size_t n = buffer.num_elements() / all.size();
  return buffer.elements(all.rank() * n, {n});
}

std::vector<Operation> operations(size_t size) {
  return {{"all_reduce",
           [](Communicator& all, Stream& stream, const TensorView& buffer) {
             return all.all_reduce(stream, buffer, {});
           },
           1},
          {"reduce_scatter",
           [](Communicator& all, Stream& stream, const TensorView& buffer) {
             return all.reduce_scatter(stream, part_of(all, buffer), buffer, {});
           },
           size},
          {"all_gather",
           [](Communicator& all, Stream& stream, const TensorView& buffer) {
             return all.all_gather(stream, buffer, part_of(all, buffer), {});
           },
           size},
          {"broadcast",
           [](Communicator& all, Stream& stream, const TensorView& buffer) {
             return all.broadcast(stream, buffer, 1, {});
           },
           1},
          {"reduce",
           [](Communicator& all, Stream& stream, const TensorView& buffer) {
             return all.reduce(stream, buffer, 1, {});
           },
           1},
          {"send",  // around the ring
           [](Communicator& all, Stream& stream, const TensorView& buffer) {
             const size_t n = all.size(), me = all.rank();
             Work sent = all.send(stream, buffer, (me + 1) % n, {.background = true});
             all.recv(stream, buffer, (me + n - 1) % n, {}).wait(stream);
             return sent;
           },
           1}};
}

// The machine of each rank, as if there were several, and where this rank's buffers lie.
struct OnMachines {
  std::vector<size_t> machine_of = {};  // empty: all ranks are on one, and share no memory
  Place place = Place::unregistered;
};

// Each rank makes one call on `n` elements of fp32. Returns what it ended with; "" if with nothing.
std::string error_of(Ranks& ranks, const Call& call, size_t n, const OnMachines& where = {}) {
  const auto all =
      make_communicator(world(), where.machine_of.empty() ? nullptr : &ranks.node_memory,
                        {.segment_elements = 5000, .machine_of = where.machine_of});
  const TensorView buffer = ranks.take<float>(where.place, n);
  std::string error;
  {
    Alarm alarm(*all, ranks.node_memory);
    try {
      call(*all, ranks.stream, buffer).wait(ranks.stream);
    } catch (const Error& thrown) {
      error = thrown.what();
      alarm.ring();
    }
    mpi_check(MPI_Barrier(MPI_COMM_WORLD));  // peers may write until all have ended
  }
  const auto check_guards = make_communicator(world(), nullptr);
  ranks.release(*check_guards, {buffer});
  return error;
}

// One side's message is the other side's surprise: some rank has to end with this error.
void require_somewhere(const std::string& error, const std::string& pattern) {
  int found = std::regex_search(error, std::regex(pattern)), anywhere = 0;
  mpi_check(MPI_Allreduce(&found, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  INFO(error);
  CHECK(anywhere > 0);
}

TEST_CASE("by messages, a rank whose buffer is longer or shorter") {
  Ranks ranks;
  const size_t size = world().size();
  // Short messages and such as MPI copies straight out of the sender's memory; several segments.
  constexpr std::pair<size_t, size_t> kLengths[] = {{20, 21},       {21, 20},      {0, 9},
                                                    {9, 0},         {2000, 3000},  {3000, 2000},
                                                    {4000, 12'000}, {5000, 10'000}};
  for (const Operation& operation : operations(size)) {
    size_t odd = 0;  // every rank in turn
    for (const auto& [usual, other] : kLengths) {
      INFO(operation.name << ", rank " << odd << " with " << other << " instead of " << usual);
      const size_t n = (world().rank() == odd ? other : usual) * operation.parts;
      const std::string bytes = concat("[0-9]+ bytes of ", operation.name, " in fp32");
      require_somewhere(error_of(ranks, operation.call, n),
                        concat(operation.name == std::string("send") ? "recv" : operation.name,
                               " of ", n, " fp32.*: rank [0-9] on .* sends ", bytes,
                               "( and more after them)?, ", world().name(), " expects ", bytes));
      odd = (odd + 1) % size;
    }
  }
}

// Of the same length, so that only the label tells.
TEST_CASE("by messages, a rank that calls something else") {
  Ranks ranks;
  constexpr size_t kElements = 800;
  const auto all_reduce = [](DType dtype, Reduction reduction) {
    return [=](Communicator& all, Stream& stream, const TensorView& buffer) {
      const TensorView view(buffer.data(), dtype, DeviceType::cpu, buffer.shape());
      return all.all_reduce(stream, view, {.reduction = reduction});
    };
  };
  const Call usual = all_reduce(DType::fp32, Reduction::sum);
  const std::pair<Call, std::string> others[] = {
      {all_reduce(DType::int32, Reduction::sum), "400 bytes of all_reduce in int32"},
      {all_reduce(DType::fp32, Reduction::max), "400 bytes of all_reduce \\(max\\) in fp32"},
      {operations(world().size())[1].call, "400 bytes of reduce_scatter in fp32"},
      {[](Communicator& all, Stream&, const TensorView&) {
         all.barrier();
         return Work();
       },
       "0 bytes of barrier in fp32"}};
  for (const auto& [other, text] : others) {
    for (size_t odd = 0; odd < world().size(); ++odd) {
      INFO("rank " << odd << " sends " << text);
      require_somewhere(error_of(ranks, world().rank() == odd ? other : usual, kElements),
                        concat("sends ", text, ".* expects 400 bytes of all_reduce in fp32"));
    }
  }
}

// Such machines would wait for different messages.
TEST_CASE("between machines, one whose ranks have not registered their buffers") {
  Ranks ranks;
  const std::vector<size_t> machine_of = {0, 0, 0, 1, 1, 2, 2, 2};
  for (const Operation& operation : operations(world().size())) {
    if (operation.name == std::string("send")) continue;  // it is by messages on all machines
    for (size_t odd = 0; odd < 3; ++odd) {
      for (size_t n : {1, 2000, 20'000}) {
        INFO(operation.name << " of " << n << ", machine " << odd);
        const bool is_odd = machine_of[world().rank()] == odd;
        const OnMachines where = {machine_of, is_odd ? Place::unregistered : Place::registered};
        require_somewhere(error_of(ranks, operation.call, n * operation.parts, where),
                          concat(operation.name,
                                 " of .*: all ranks on the machine of rank [0-9] on .* have "
                                 "registered their buffers, those on the machine of rank [0-9] "
                                 "on .* have not"));
      }
    }
  }
}

}  // namespace
}  // namespace ladder::testing
