// Lesson 02 computes what lesson 01 computes: the harness on 1, 2, 3, 4 and 8 ranks.
#include <catch2/catch.hpp>

#include "lessons/02_ddp/trainer.h"
#include "tests/lessons/equivalence.h"

namespace ladder {
namespace {

using namespace testing;

static_assert(Trainer<DdpTrainer>);

// Groups of `ranks` ranks, beginning with the first; the rest forms a smaller one. All groups run,
// so that every rank of the node makes the same registrations.
struct Groups {
  explicit Groups(size_t ranks)
      : all(MpiCommunicator::make_world(world(), &node_memory)),
        group(all->split(world().rank() / ranks)) {}

  NodeMemory node_memory{world()};
  std::unique_ptr<Communicator> all, group;
};

void require_none(const std::vector<std::string>& found) {
  for (const std::string& difference : found) FAIL(difference);
  SUCCEED();
}

TEST_CASE("the gradients, parameters and moments of lesson 01") {
  for (DType dtype : {DType::fp64, DType::fp32}) {
    const Record oracle = record_oracle(dtype);
    for (size_t ranks : {1, 2, 3, 4, 8}) {
      // Three ranks have 8 rows each, which 3 does not divide.
      for (size_t micro_batch : {size_t{1}, ranks == 3 ? size_t{4} : size_t{3}}) {
        INFO(name_of(dtype) << ", " << ranks << " ranks, micro-batch " << micro_batch);
        Groups groups(ranks);
        const RunConfig config = equivalence_config(dtype, micro_batch);
        const Record record = record_run<DdpTrainer>(config, *groups.group, &groups.node_memory,
                                                     {.bucket_bytes = 20000});
        if (groups.group->rank() != 0) continue;
        require_none(differences(oracle, record, bounds_for(dtype), config.optimizer));
      }
    }
  }
}

TEST_CASE("the negative control: ranks that exchange nothing are found out") {
  const Record oracle = record_oracle(DType::fp64);
  const RunConfig config = equivalence_config(DType::fp64, 3);
  Unconnected nobody(0, 2);
  const Record record = record_run<DdpTrainer>(config, nobody, nullptr);
  const auto found = differences(oracle, record, bounds_for(DType::fp64), config.optimizer);
  CHECK(found.size() > 300);  // of 3 steps' 114 tensors and two numbers, nearly all
  CHECK(found.front().find("loss") != std::string::npos);
}

TEST_CASE("buckets, overlap and the path of the data change no bit") {
  const RunConfig config = equivalence_config(DType::fp32, 1);
  Groups groups(4);
  const auto run = [&](const DdpTrainer::Flags& flags, MemorySource* registered) {
    return record_run<DdpTrainer>(config, *groups.group, registered, flags);
  };
  const Record expected = run({.naive = true}, &groups.node_memory);
  const std::vector<DdpTrainer::Flags> variants = {{.bucket_bytes = 1},
                                                   {.bucket_bytes = 20000},
                                                   {.bucket_bytes = size_t{1} << 40},
                                                   {.bucket_bytes = 20000, .no_overlap = true}};
  for (const DdpTrainer::Flags& flags : variants) {
    for (MemorySource* source :
         {static_cast<MemorySource*>(&groups.node_memory), static_cast<MemorySource*>(nullptr)}) {
      INFO(flags.bucket_bytes << (flags.no_overlap ? " no overlap" : "")
                              << (source != nullptr ? " registered" : ""));
      const Record record = run(flags, source);
      if (groups.group->rank() == 0) {
        require_none(differences(expected, record, {}, config.optimizer));
      }
    }
  }
}

TEST_CASE("memory and communication are as predicted") {
  for (size_t ranks : {1, 2, 3, 4, 8}) {
    INFO(ranks << " ranks");
    Groups groups(ranks);
    const RunConfig config = equivalence_config(DType::fp32, 1);
    const Record record =
        record_run<DdpTrainer>(config, *groups.group, &groups.node_memory, {.bucket_bytes = 20000});
    CHECK(record.device_peak == record.prediction.device);
    CHECK(record.host_peak == record.prediction.host);

    const std::pair key = {Purpose::gradient, Collective::all_reduce};
    const Layout layout(config.model, groups.group->size());
    const Traffic predicted = record.prediction.step.at(key);
    CHECK(predicted.payload_bytes == layout.num_elements() * sizeof(float));
    CHECK(predicted.calls > 3);
    const Traffic measured = groups.group->ledger().entries().at(key);
    CHECK(measured.calls == kSteps * predicted.calls);
    CHECK(measured.payload_bytes == kSteps * predicted.payload_bytes);
    // Counted where bytes are moved: what is read from and written to peers is what a ring sends.
    if (const auto* mpi = dynamic_cast<const MpiCommunicator*>(groups.group.get())) {
      CHECK(static_cast<double>(mpi->shared_bytes()) ==
            wire_bytes(Collective::all_reduce, mpi->size(), measured.payload_bytes));
    }
  }
}

TEST_CASE("what messages need is predicted") {
  // Padded to 16 N elements a unit; the largest bucket is the first block's, 20,000 bytes or more.
  for (size_t ranks : {1, 2, 3, 4, 8}) {
    for (DType dtype : {DType::fp32, DType::fp64}) {
      INFO(ranks << " ranks, " << name_of(dtype));
      Groups groups(ranks);
      RunConfig config = equivalence_config(dtype, 1);
      config.no_shared_memory = true;
      const auto run = [&](const DdpTrainer::Flags& flags) {
        const Record record = record_run<DdpTrainer>(config, *groups.group, nullptr, flags);
        CHECK(record.device_peak == record.prediction.device);
        CHECK(record.host_peak == record.prediction.host);
        return record.device_peak[Category::communication];
      };
      const size_t size = groups.group->size();
      const Layout layout(config.model, size);
      const size_t block = layout.unit(layout.units().size() - 2).padded_elements;
      CHECK(run({.bucket_bytes = 1}) == (size == 1 ? 0 : block * size_of(dtype)));
      CHECK(run({.naive = true}) == (size == 1 ? 0 : layout.num_elements() * size_of(dtype)));
    }
  }
  // No more than a piece, however large the bucket.
  static_assert(staging_elements(Collective::all_reduce, 3, size_t{1} << 30) == 1048578);
}

TEST_CASE("replicas that differ are found") {
  Groups groups(4);
  const RunConfig config = equivalence_config(DType::fp32, 3);
  const ProcessGrid grid = {.data_size = groups.group->size(), .rank = groups.group->rank()};
  const Corpus corpus = Corpus::king_james();
  Memory device(config.device, "device", 0), host(DeviceType::cpu, "host", 0);
  Stream stream(config.device);
  RunConfig other = config;
  if (grid.rank == 1) other.seed = 2;  // other initial weights
  DdpTrainer same(
      {config, grid, corpus, device, host, stream, groups.group.get(), &groups.node_memory}, {});
  same.step();
  CHECK_NOTHROW(same.check_replicas());
  DdpTrainer different(
      {other, grid, corpus, device, host, stream, groups.group.get(), &groups.node_memory}, {});
  CHECK_THROWS_WITH(different.check_replicas(),
                    Catch::Contains("parameters of rank 1 differ from those of rank 0"));
}

}  // namespace
}  // namespace ladder
