// Lesson 12 without compression is lesson 02; with it, replicas stay the same, the predictions
// hold, and what it learns is near.
#include <algorithm>
#include <cmath>

#include "lessons/02_ddp/trainer.h"
#include "lessons/12_gradient_compression/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/copies.h"
#include "tests/lessons/sharded.h"

namespace ladder {
namespace {

using namespace testing;
using Compressed = CompressionTrainer;

const char* const kCodecs[] = {"fp16", "bf16", "fp8-e4m3", "fp8-e5m2", "int8", "1bit", "powersgd"};

Compressed::Flags with(const std::string& compression, bool feedback) {
  return {.compression = {.compression = compression, .error_feedback = feedback},
          .bucket_bytes = 20000};
}

TEST_CASE("without compression: the bits of lesson 02") {
  for (DType dtype : {DType::fp32, DType::fp64}) {
    for (size_t ranks : {1, 2, 3, 4, 8}) {
      require_same_bits<DdpTrainer, Compressed>(dtype, ranks, Accumulation::rows,
                                                {.bucket_bytes = 20000}, {.bucket_bytes = 20000});
    }
  }
}

TEST_CASE("one rank sends nothing, so every codec gives the bits of lesson 02") {
  for (const char* codec : kCodecs) {
    require_same_bits<DdpTrainer, Compressed>(DType::fp32, 1, Accumulation::none, {},
                                              with(codec, false));
  }
  require_same_bits<DdpTrainer, Compressed>(DType::fp32, 1, Accumulation::none, {},
                                            with("int8", true));
}

TEST_CASE("the negative control: ranks that exchange nothing are found out") {
  require_negative_control<Compressed>();
}

TEST_CASE("memory and communication are as predicted, and feedback is counted") {
  for (const char* codec : kCodecs) {
    INFO(codec);
    Groups groups(4);
    require_predicted<Compressed>(equivalence_config(DType::fp32, 2), groups, with(codec, true));
  }
  require_predicted<Compressed>(1, with("int8", true));
  require_predicted<Compressed>(1, with("powersgd", true));
  const RunConfig config = equivalence_config(DType::fp32, 1);
  for (size_t ranks : {2, 4, 8}) {
    const auto optimizer = [&](bool feedback) {
      return predict<Compressed>(config, {.data_size = ranks}, with("int8", feedback))
          .device[Category::optimizer];
    };
    // Rank 0 owns its slice of every bucket, at least an N-th.
    const size_t gradients = Layout(config.model, ranks).num_elements() * sizeof(float);
    CHECK(optimizer(true) - optimizer(false) >= gradients + gradients / ranks);
    CHECK(optimizer(true) - optimizer(false) <= gradients + 2 * gradients / ranks);
  }
}

TEST_CASE("the bytes that are sent are as the README says") {
  const RunConfig config = equivalence_config(DType::fp32, 1);
  const auto sent = [&](const std::string& compression, std::optional<size_t> block_size = {}) {
    Compressed::Flags flags = with(compression, false);
    flags.compression.block_size = block_size;
    return predicted_bytes<Compressed>(config, 4, Purpose::gradient, Collective::all_reduce, flags);
  };
  constexpr size_t N = 4, B = 64;  // w is the words of an encoded block
  for (const auto& [codec, w] : {std::pair("int8", 1 + B / 4), std::pair("1bit", 1 + B / 32)}) {
    size_t bytes = 0;
    for (const Bucket& bucket : make_buckets(Layout(config.model, N), DType::fp32, 20000)) {
      const size_t blocks = (bucket.num_elements + B - 1) / B;
      bytes += N * ((blocks + N - 1) / N) * 4 * w;
    }
    CHECK(sent(codec, B) == bytes);
  }
  CHECK(sent("none") == Layout(config.model, N).num_elements() * sizeof(float));
  // r columns of P and of Q for each matrix, and all vectors.
  constexpr size_t C = 32, L = 2, T = 16, V = 256, r = 4;
  const size_t embeddings = (V + C) + (T + C);
  const size_t block = (C + 3 * C) + (C + C) + 2 * (C + 4 * C);  // of matrices
  const size_t vectors = L * 13 * C + 2 * C;
  CHECK(sent("powersgd") == (vectors + r * (embeddings + L * block)) * sizeof(float));
}

TEST_CASE("replicas stay the same, whatever the codec") {
  for (const char* codec : kCodecs) {
    for (bool feedback : {false, true}) {
      INFO(codec << (feedback ? ", feedback" : ""));
      Groups groups(4);
      const RunConfig config = equivalence_config(DType::fp32, 2);
      Session<Compressed> session(config, *groups.group, &groups.node_memory,
                                  with(codec, feedback));
      for (int step = 0; step < kSteps; ++step) session.trainer->step();
      CHECK_NOTHROW(session.trainer->check_replicas());
    }
  }
}

TEST_CASE("overlap and the path of the data change no bit") {
  const RunConfig config = equivalence_config(DType::fp32, 1);
  const std::string compression = GENERATE("int8", "powersgd");
  Groups groups(4);
  const auto run = [&](bool no_overlap, MemorySource* registered) {
    Compressed::Flags flags = with(compression, true);
    flags.compression.stochastic_rounding = compression == "int8";
    flags.no_overlap = no_overlap;
    return record_run<Compressed>(config, *groups.group, registered, flags);
  };
  const Record expected = run(false, &groups.node_memory);
  for (bool no_overlap : {false, true}) {
    for (MemorySource* source :
         {static_cast<MemorySource*>(&groups.node_memory), static_cast<MemorySource*>(nullptr)}) {
      const Record record = run(no_overlap, source);
      if (groups.group->rank() == 0) {
        require_none(differences(expected, record, {}, config.optimizer));
      }
    }
  }
}

template <class T>
std::vector<double> gradients_of(T& trainer) {
  const TensorView view = trainer.state().gradients;
  return std::vector<double>(view.as<double>(), view.as<double>() + view.num_elements());
}

// Adds what all ranks hold back to numbers of the flat buffer.
void add_held(Compressed& trainer, Communicator& group, std::vector<double>& numbers) {
  const Layout& layout = trainer.state().layout();
  std::vector<double> held(numbers.size());
  const std::vector<NamedSlice> stored = trainer.stored();
  // Those of the state come first.
  for (size_t i = trainer.Trainer::stored().size(); i < stored.size(); ++i) {
    const Slice& slice = stored[i].slice;
    size_t begin = 0;  // of the parameter in the flat buffer
    for_parameters_in(layout, 0, layout.num_elements(),
                      [&](const Parameter& parameter, size_t at, size_t, size_t) {
                        if (&parameter == slice.parameter) begin = at;
                      });
    const double* const x = slice.view.as<double>();
    for (size_t j = 0; j < slice.view.num_elements(); ++j) held[begin + slice.first + j] += x[j];
  }
  Stream host(DeviceType::cpu);
  const TensorView view(held.data(), DType::fp64, DeviceType::cpu, {held.size()});
  group.all_reduce(host, view, {}).wait(host);
  for (size_t i = 0; i < held.size(); ++i) numbers[i] += held[i];
}

double furthest(const std::vector<double>& a, const std::vector<double>& b) {
  double distance = 0;
  for (size_t i = 0; i < a.size(); ++i) distance = std::max(distance, std::abs(a[i] - b[i]));
  return distance;
}

TEST_CASE("what all steps apply and what all ranks hold make up lesson 02's sums") {
  Groups groups(4);
  Communicator& group = *groups.group;
  RunConfig config = equivalence_config(DType::fp64, 2);
  // So small that no parameter changes: all runs have the same gradients.
  config.optimizer.learning_rate = config.optimizer.min_learning_rate = 1e-30;
  const auto sum_of_steps = [](auto& session) {
    std::vector<double> sum;
    for (int step = 0; step < kSteps; ++step) {
      session.trainer->step();
      const std::vector<double> gradients = gradients_of(*session.trainer);
      sum.resize(gradients.size());
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradients[i];
    }
    return sum;
  };
  Session<DdpTrainer> exact(config, group, &groups.node_memory);
  const std::vector<double> expected = sum_of_steps(exact);
  const double largest = furthest(expected, std::vector<double>(expected.size()));
  for (const char* codec : {"int8", "1bit", "powersgd"}) {
    INFO(codec);
    Session<Compressed> session(config, group, &groups.node_memory, with(codec, true));
    std::vector<double> sum = sum_of_steps(session);
    CHECK(furthest(sum, expected) > 1e-3 * largest);  // there is something to hold
    add_held(*session.trainer, group, sum);
    CHECK(furthest(sum, expected) <= 1e-12 * largest);  // some hundred roundings of 2^-53
  }
}

// The loss after 60 steps of the small model on 4 ranks.
double last_loss(const Compressed::Flags& flags) {
  Groups groups(4);
  RunConfig config = equivalence_config(DType::fp32, 6);
  config.optimizer.num_steps = 60;
  config.optimizer.learning_rate = 3e-3;
  Session<Compressed> session(config, *groups.group, &groups.node_memory, flags);
  for (int step = 0; step < 60; ++step) session.trainer->step();
  return session.trainer->evaluate(4);
}

TEST_CASE("what it learns is near what lesson 02 learns") {
  const double exact = last_loss(with("none", false));
  CHECK(exact < 3.5);  // of 5.5 at the beginning
  // Measured with seeds 1 to 12: lesson 02's loss is 3.17 with a standard deviation of 0.04. Codecs
  // with 8 or 16 bits differ from it by 0.014 at most with eleven seeds, and by 0.029 with seed 1,
  // which is this one. 1bit with feedback follows the gradient with a delay of some of the 60
  // steps: 0.09 to 0.22 above. PowerSGD: 0.05 at most.
  for (const char* codec : {"fp16", "bf16", "fp8-e4m3", "fp8-e5m2", "int8"}) {
    INFO(codec);
    CHECK(std::abs(last_loss(with(codec, true)) - exact) < 0.04);
    CHECK(std::abs(last_loss(with(codec, false)) - exact) < 0.04);
  }
  CHECK(last_loss(with("1bit", true)) < exact + 0.3);
  CHECK(last_loss(with("powersgd", true)) < exact + 0.1);
}

}  // namespace
}  // namespace ladder
