// Units and parameters that are not trained, drawn at random: they have no gradient, no moment, no
// master and no traffic, backward does not compute what nobody wants, and what is trained gets the
// bits that it gets when all is trained.

#include <algorithm>
#include <random>
#include <set>

#include "common/model/train_choice.h"
#include "common/train/run/simulated_rank.h"
#include "common/virtual/lazy_memory.h"
#include "tests/catch.h"
#include "tests/lessons/all_trainers.h"
#include "tests/lessons/sharded.h"
#include "tests/sample.h"

namespace ladder {
namespace {

using namespace testing;

// A model with frozen parts, and what follows from it, written without the layout.
struct Frozen {
  explicit Frozen(RunConfig run) : config(std::move(run)) {
    ModelConfig whole = config.model;
    whole.frozen.clear();
    units = describe(whole).units;
  }
  bool has(const std::string& unit, const std::string& parameter) const {
    const std::vector<std::string>& names = config.model.frozen;
    return std::ranges::count(names, unit) + std::ranges::count(names, parameter) > 0;
  }
  bool has(const std::string& parameter) const {
    for (const UnitSpec& unit : units) {
      for (const ParameterSpec& p : unit.parameters) {
        if (p.name == parameter) return has(unit.name, parameter);
      }
    }
    FAIL("no parameter " << parameter);
    return false;
  }
  // Elements of a unit's parameters that are frozen or are not, padded for so many ranks.
  size_t elements(const UnitSpec& unit, bool frozen, size_t ranks) const {
    size_t sum = 0;
    for (const ParameterSpec& p : unit.parameters) {
      if (has(unit.name, p.name) == frozen) sum += p.shape.num_elements();
    }
    return (sum + 16 * ranks - 1) / (16 * ranks) * (16 * ranks);
  }
  size_t all(const UnitSpec& unit, size_t ranks) const {
    return elements(unit, false, ranks) + elements(unit, true, ranks);
  }
  bool trains(const UnitSpec& unit) const { return elements(unit, false, 1) > 0; }
  size_t trained(size_t ranks) const {
    size_t sum = 0;
    for (const UnitSpec& unit : units) sum += elements(unit, false, ranks);
    return sum;
  }
  size_t all(size_t ranks) const {
    size_t sum = 0;
    for (const UnitSpec& unit : units) sum += all(unit, ranks);
    return sum;
  }
  // The number of the unit below which nothing is trained.
  size_t lowest() const {
    return static_cast<size_t>(
        std::ranges::find_if(units, [&](const UnitSpec& unit) { return trains(unit); }) -
        units.begin());
  }
  // Elements that lesson 05 gathers for a micro-batch: each unit for forward, the classifier's
  // again, and what backward passes through.
  size_t gathered(size_t ranks) const {
    const bool untied = config.model.untied;
    size_t sum = untied ? 0 : all(units[0], ranks);
    for (const UnitSpec& unit : units) sum += all(unit, ranks);
    for (size_t i = std::max<size_t>(2, lowest()); i < units.size(); ++i) {
      if (units[i].name != "lm_head") sum += all(units[i], ranks);
    }
    return sum;
  }

  RunConfig config;
  std::vector<UnitSpec> units;
};

// Freezes some units and some parameters of others, or, of every third model, all that lies below a
// unit. Something is left to train.
Frozen draw(DType dtype, size_t micro_batch, size_t number, size_t layers = 2) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(number));
  const auto one_in = [&](unsigned n) { return random() % n == 0; };
  Frozen drawn(equivalence_config(dtype, micro_batch));
  drawn.config.optimizer.clip_norm = 0;  // the norm has fewer terms
  drawn.config.model.num_layers = layers;
  drawn.config.model.untied = one_in(2);
  drawn = Frozen(drawn.config);
  std::vector<std::string>& names = drawn.config.model.frozen;
  do {
    names.clear();
    const size_t below = number % 3 == 0 ? random() % drawn.units.size() : 0;
    for (size_t i = 0; i < drawn.units.size(); ++i) {
      const UnitSpec& unit = drawn.units[i];
      if (i < below || one_in(3)) {
        names.push_back(unit.name);
        continue;
      }
      for (const ParameterSpec& p : unit.parameters) {
        if (one_in(4)) names.push_back(p.name);
      }
    }
  } while (drawn.trained(1) == 0 || names.empty());
  return drawn;
}

std::string text_of(const Frozen& frozen) {
  std::string text;
  for (const std::string& name : frozen.config.model.frozen) text += " " + name;
  return text;
}

// What training begins with.
std::map<std::string, std::vector<double>> first_values(const RunConfig& config) {
  Communicator alone{std::make_unique<OneRank>()};
  Session<SingleGpuTrainer> session(config, alone, nullptr);
  Record record;
  record.tensors.emplace_back();
  record_tensors(session, kParam, record);
  return record.tensors[0];
}

// `some` is a run of the model with frozen parts, `full` one that trains everything.
void check_tensors(const Frozen& frozen, const Record& full, const Record& some) {
  const auto first = first_values(frozen.config);
  for (const auto& [name, values] : full.tensors[0]) {
    const bool is_param = name.starts_with("param.");
    INFO(name);
    if (!frozen.has(name.substr(name.find('.') + 1))) {
      CHECK((some.tensors[0].at(name) == values));
    } else if (!is_param) {
      CHECK(!some.tensors[0].contains(name));
    } else {
      CHECK(some.tensors[0].at(name) == first.at(name));
      CHECK(some.tensors[kSteps - 1].at(name) == first.at(name));
    }
  }
}

// Runs a trainer with everything and with the frozen parts, on the first ranks of the world.
template <class T>
void check_run(const Frozen& frozen, size_t ranks, const typename T::Flags& flags = {}) {
  INFO(T::kLesson.info.name << " on " << ranks << " ranks, " << name_of(frozen.config.dtype)
                            << (frozen.config.model.untied ? ", untied" : "")
                            << ", frozen:" << text_of(frozen));
  const auto record = [&](const RunConfig& config) {
    Groups groups(ranks);  // which count what they communicate
    return record_run<T>(config, *groups.group, &groups.node_memory, flags);
  };
  RunConfig everything = frozen.config;
  everything.model.frozen.clear();
  const Record full = record(everything), some = record(frozen.config);
  require_as_predicted(some);
  CHECK(some.same_on_all_ranks);
  if (world().rank() != 0) return;
  check_tensors(frozen, full, some);
  if (frozen.config.dtype != DType::fp32) return;
  const Record oracle = record_oracle(frozen.config);
  for (size_t step = 0; step < kSteps; ++step) {
    CHECK(some.results[step].loss == Approx(oracle.results[step].loss).epsilon(1e-4));
    CHECK(some.results[step].grad_norm == Approx(oracle.results[step].grad_norm).epsilon(1e-3));
  }
}

// The bytes of a step, or 0 if there are none.
size_t bytes_of(const Prediction& prediction, Purpose purpose, Collective collective) {
  const auto found = prediction.step.find({purpose, collective});
  return found == prediction.step.end() ? 0 : found->second.payload_bytes;
}

// Bytes by category and purpose, of a rank of N. What is sharded is an N-th.
template <class T>
void check_bytes(const Frozen& frozen, size_t n, const typename T::Flags& flags = {}) {
  const std::string lesson = T::kLesson.info.name;
  const bool shards_optimizer = lesson >= "03", shards_gradients = lesson >= "04";
  const bool shards_parameters = lesson == Zero3Trainer::kLesson.info.name;
  const bool on_host = lesson == OffloadTrainer::kLesson.info.name;
  const size_t width = size_of(frozen.config.dtype), p = width * frozen.all(n);
  const size_t g = size_of(frozen.config.accumulation()) * frozen.trained(n);
  const size_t numbers = on_host || width == 2 ? 3 : 2;  // with a master
  const size_t micro_batches = frozen.config.num_micro_batches(n);
  const Prediction predicted = predict<T>(frozen.config, {.data_size = n}, flags);
  const MemoryUse& trained = on_host ? predicted.host : predicted.device;
  INFO(lesson << " on " << n << " ranks, frozen:" << text_of(frozen));
  CHECK(predicted.device[Category::parameters] == p / (shards_parameters ? n : 1));
  CHECK(trained[Category::gradients] == g / (shards_gradients ? n : 1));
  CHECK(trained[Category::optimizer] == numbers * g / (shards_optimizer ? n : 1));
  const auto bytes = [&](Purpose purpose, Collective collective) {
    return bytes_of(predicted, purpose, collective);
  };
  CHECK(bytes(Purpose::gradient, Collective::all_reduce) ==
        (lesson == DdpTrainer::kLesson.info.name ? g : 0));
  CHECK(bytes(Purpose::gradient, Collective::reduce_scatter) == (shards_gradients
                                                                     ? micro_batches * g
                                                                 : shards_optimizer ? g
                                                                                    : 0));
  CHECK(bytes(Purpose::parameter, Collective::all_gather) ==
        (shards_parameters  ? width * micro_batches * frozen.gathered(n)
         : shards_optimizer ? width * frozen.trained(n)
                            : 0));
}

TEST_CASE("frozen parts keep their values, and what is trained gets the bits it always gets") {
  for_random_cases(3, [](size_t number) {
    for (size_t ranks : {1, 2, 4}) {
      const DType dtype = number % 2 == 0 ? DType::bf16 : DType::fp32;
      const Frozen frozen = draw(dtype, number % 2 == 0 ? 3 : 24 / ranks, number);
      if (ranks == 1) check_run<SingleGpuTrainer>(frozen, 1);
      check_run<DdpTrainer>(frozen, ranks, {.bucket_bytes = 4096});
      check_run<Zero1Trainer>(frozen, ranks);
      check_run<Zero2Trainer>(frozen, ranks);
      check_run<Zero3Trainer>(frozen, ranks);
    }
  });
}

TEST_CASE("frozen parts in the lessons after 05") {
  for_random_cases(2, [](size_t number) {
    const Frozen frozen = draw(DType::fp32, 3, number);
    check_run<OffloadTrainer>(frozen, 4);
    check_run<OffloadTrainer>(frozen, 2,
                              {.zero_stage = 3, .offload_parameters = true, .gather = {}});
    check_run<TensorParallelTrainer>(frozen, 2);
    check_run<PipelineTrainer>(frozen, 1);
    ThreeDTrainer::Flags split;
    split.tensor_parallel_size = 2;
    for (const int stage : {0, 1}) {
      split.zero.stage = stage;
      check_run<ThreeDTrainer>(frozen, 4, split);
    }
    check_run<MixedPrecisionTrainer>(frozen, 2, {.reduce = {.dtype = DType::bf16}});
    check_run<CheckpointingTrainer>(frozen, 1);
    check_run<CompressionTrainer>(frozen, 2);
    check_run<SequenceParallelTrainer>(frozen, 2);
    check_run<ContextParallelTrainer>(frozen, 2);
    check_run<ElasticTrainer>(frozen, 2);
    for (const Order order : {Order::one_f_one_b, Order::zb_h1}) {
      check_run<ScheduleTrainer>(frozen, 1, {.order = order});
    }
    Frozen less = frozen;
    less.config.recompute = parse_recompute(number % 2 == 0 ? "block" : "mlp");
    check_run<Zero3Trainer>(less, 2);
    less.config.offload_activations = true;
    check_run<SingleGpuTrainer>(less, 1);
  });
}

// Stages of a pipeline compute what one rank does, even if every send waits for its receiver.
template <class T>
void check_stages(const Record& oracle, const Frozen& frozen, size_t ranks,
                  const typename T::Flags& flags) {
  INFO(T::kLesson.info.name << " on " << ranks << " ranks"
                            << (frozen.config.model.untied ? ", untied" : "")
                            << ", frozen:" << text_of(frozen));
  Groups groups(ranks, {.synchronous_sends = true});
  const Record record = record_run<T>(frozen.config, *groups.group, &groups.node_memory, flags);
  require_as_predicted(record);
  if (groups.group->rank() != 0) return;
  require_none(
      differences(oracle, record, bounds_for(frozen.config.dtype), frozen.config.optimizer));
}

TEST_CASE("frozen parts in every schedule of a pipeline") {
  for_random_cases(4, [](size_t number) {
    const Frozen frozen = draw(DType::fp64, 3, number, 6);
    const Record oracle = record_oracle(frozen.config);
    const size_t ranks = number % 2 == 0 ? 2 : 4;
    for (const ScheduleKind kind :
         {ScheduleKind::naive, ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
      check_stages<PipelineTrainer>(oracle, frozen, ranks, {.schedule = kind});
    }
    for (const Order order : kOrders) {
      INFO(name_of(order));
      check_stages<ScheduleTrainer>(oracle, frozen, ranks, {.order = order});
    }
    check_stages<ScheduleTrainer>(oracle, frozen, ranks, {.order = std::nullopt});
    ThreeDTrainer::Flags grid;
    grid.pipeline.pipeline_parallel_size = 2;
    grid.pipeline.order = kOrders[2 + number % 5];
    for (const size_t tensor : {1, 2}) {
      grid.tensor_parallel_size = tensor;
      grid.zero.stage = number % 2;
      grid.sequence_parallel = tensor > 1 && number % 3 == 0;
      INFO(name_of(*grid.pipeline.order) << ", ZeRO-" << grid.zero.stage);
      check_stages<ThreeDTrainer>(oracle, frozen, 4, grid);
    }
    Frozen less = frozen;
    less.config.recompute = parse_recompute("mlp");
    check_stages<PipelineTrainer>(oracle, less, 2, {});
    less.config.offload_activations = true;
    check_stages<PipelineTrainer>(oracle, less, 2, {});
  });
}

// Four stages with a block each; the embeddings are on the first, the norm and the classifier on
// the last. 8 micro-batches.
TEST_CASE("stages below what is trained hold one micro-batch, and neither get nor send gradients") {
  RunConfig config = equivalence_config(DType::fp32, 3);
  config.model.num_layers = 4;
  const size_t message = 3 * 16 * 32 * sizeof(float), m = 8;
  const auto predicted = [](const RunConfig& run, size_t stage) {
    return predict<PipelineTrainer>(run, {.pipeline_size = 4, .rank = stage},
                                    {.stage_layers = {1, 1, 1, 1}});
  };
  for (const size_t trained : {1, 2, 3, 4}) {
    RunConfig some = config;
    some.model.frozen = frozen_names(config.model, concat("last-", trained));
    const size_t first = 4 - trained;  // the stage with the first trained block
    for (size_t stage = 0; stage < 4; ++stage) {
      CAPTURE(trained, stage);
      const Prediction own = predicted(some, stage), all = predicted(config, stage);
      const size_t held = stage < first ? 1 : 4 - stage;
      CHECK(own.device[Category::activations] * (4 - stage) ==
            all.device[Category::activations] * held);
      CHECK((own.device[Category::gradients] == 0) == (stage < first));
      CHECK((own.device[Category::optimizer] == 0) == (stage < first));
      const size_t sent = (stage < 3) + (stage > first);
      const size_t received = (stage > 0) + (stage >= first && stage < 3);
      const auto messages = [&](Collective direction) {
        const auto found = own.step.find({Purpose::activation, direction, Axis::pipeline});
        return found == own.step.end() ? Traffic() : found->second;
      };
      CHECK(messages(Collective::send) ==
            Traffic{.calls = m * sent, .payload_bytes = m * sent * message});
      CHECK(messages(Collective::recv) ==
            Traffic{.calls = m * received, .payload_bytes = m * received * message});
      // The table is frozen, so the stages that have it sum nothing.
      CHECK(own.step.count({Purpose::gradient, Collective::all_reduce, Axis::embedding}) == 0);
    }
  }
}

TEST_CASE("memory and communication are those of what is trained") {
  for_random_cases(40, [](size_t number) {
    for (size_t ranks : {1, 2, 4}) {
      const Frozen frozen = draw(number % 2 == 0 ? DType::bf16 : DType::fp32, 3, number);
      check_bytes<SingleGpuTrainer>(frozen, 1);
      check_bytes<DdpTrainer>(frozen, ranks);
      check_bytes<Zero1Trainer>(frozen, ranks);
      check_bytes<Zero2Trainer>(frozen, ranks);
      check_bytes<Zero3Trainer>(frozen, ranks);
      if (number % 2 == 1) check_bytes<OffloadTrainer>(frozen, ranks);
    }
  });
}

// Every kernel takes a second.
class OneSecond final : public TimeModel {
 public:
  DeviceType device() const override { return DeviceType::cpu; }
  double kernel_seconds(DeviceType, const KernelCall&) const override { return 1; }
  double copy_seconds(DeviceType, DeviceType, size_t) const override { return 1; }
  double launch_seconds() const override { return 0; }
  double collective_seconds(Collective, const std::vector<size_t>&, size_t) const override {
    return 1;
  }
  double message_seconds(size_t, size_t, size_t) const override { return 1; }
  Port port_between(const std::vector<size_t>&) const override { return Port::inside; }
  double compute_taken(Port) const override { return 0; }
};

// How many matrix products lesson 01 launches in a step of one micro-batch, but for attention's.
size_t launched_products(const RunConfig& config) {
  const OneSecond times;
  Engine engine(times, 1);
  LazyMemory host_memory;
  SimulatedRank rank(config, {}, host_memory);
  size_t products = 0;
  engine.set_launch_observer([&](size_t, Simulation::StreamId, const KernelCall& call) {
    products += std::string_view(call.name).starts_with("matmul") ? 1 : 0;
  });
  const Program program = make_program<SingleGpuTrainer>();
  engine.run([&](size_t) {
    run_simulated_rank(program, config, Session<SingleGpuTrainer>::corpus(), engine, rank,
                       [&](const TrainerContext& context, Communicator&) {
                         program.make(context)->step();
                         context.stream.synchronize();
                       });
  });
  return products;
}

TEST_CASE("backward launches the products of what is trained, down to the lowest unit") {
  if (world().rank() != 0) return;
  size_t fewer = 0;
  for_random_cases(40, [&](size_t number) {
    Frozen frozen = draw(DType::fp32, 16, number);
    frozen.config.global_batch_size = 16;  // whose 256 rows are one row block of the classifier
    INFO("frozen:" << text_of(frozen));
    const size_t head = frozen.config.model.untied ? frozen.units.size() - 1 : 0;
    const size_t layers = frozen.config.model.num_layers, lowest = frozen.lowest();
    size_t expected = 4 * layers + 1;  // forward
    expected += frozen.trains(frozen.units[head]) ? 1 : 0;
    expected += lowest == frozen.units.size() - 1 && head == lowest ? 0 : 1;
    for (size_t i = 2; i < 2 + layers; ++i) {
      if (i >= lowest) expected += 4;
      for (const ParameterSpec& p : frozen.units[i].parameters) {
        if (p.shape.num_dims() == 2 && !frozen.has(p.name)) ++expected;
      }
    }
    CHECK(launched_products(frozen.config) == expected);
    fewer += expected < 12 * layers + 3 ? 1 : 0;
  });
  CHECK(fewer > 0);
}

TEST_CASE("what cannot be frozen is refused") {
  const auto make = [](std::vector<std::string> frozen, const ModelPartition& part,
                       size_t experts) {
    ModelConfig model = equivalence_config(DType::fp32, 1).model;
    model.experts.num_experts = experts;
    model.frozen = std::move(frozen);
    Layout(model, 1, part);
  };
  using Catch::Matchers::Message;
  CHECK_THROWS_MATCHES(make({"wte", "h.2"}, {}, 0), UserError,
                       Message("frozen h.2: neither a unit nor a parameter of the model"));
  CHECK_THROWS_MATCHES(make({"wte", "wpe", "h.0", "h.1", "ln_f"}, {}, 0), UserError,
                       Message("every parameter is frozen; nothing is left to train"));
  CHECK_NOTHROW(make({"wte"}, {}, 4));
  CHECK_NOTHROW(make({"wte", "h.1.ln_1.bias"}, {}, 0));
  CHECK_NOTHROW(make({"wte", "wpe"}, {.end = 2}, 0));
}

}  // namespace
}  // namespace ladder
