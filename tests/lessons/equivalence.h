// The equivalence harness: any trainer, on any number of ranks, against lesson 01 on the same
// global batch.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/comm/communicator.h"
#include "common/comm/mpi_transport.h"
#include "common/comm/one_rank.h"
#include "common/train/program/prediction.h"
#include "common/train/program/sample.h"
#include "common/train/run/outputs.h"
#include "lessons/01_single_gpu/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/session.h"
#include "tests/mpi_main.h"
#include "tools/state/comparison/compare.h"

namespace ladder::testing {

inline constexpr int kSteps = 3;

// Three steps of a small model on 24 rows, with clipping active: the norm begins at about 2.4.
inline RunConfig equivalence_config(DType dtype, size_t micro_batch_size) {
  RunConfig config;
  config.model = {
      .num_layers = 2, .num_heads = 2, .hidden = 32, .vocab_size = 256, .sequence_length = 16};
  config.global_batch_size = 24;
  config.micro_batch_size = micro_batch_size;
  config.optimizer.num_steps = kSteps;
  config.optimizer.warmup_steps = 1;
  config.optimizer.clip_norm = 1;
  config.dtype = dtype;
  return config;
}

// The same with four layers and heads, for ranks that split the model.
inline RunConfig split_config(DType dtype, size_t micro_batch_size) {
  RunConfig config = equivalence_config(dtype, micro_batch_size);
  config.model.num_layers = config.model.num_heads = 4;
  return config;
}

// The run with the Llama family's block: so many heads of k and v, and biases on q, k and v. With
// norms of q and k, or without.
inline RunConfig with_llama_block(RunConfig config, size_t key_value_heads,
                                  QkNorm qk_norm = QkNorm::none) {
  ModelConfig& model = config.model;
  model.key_value_heads = key_value_heads;
  model.norm = Norm::rmsnorm;
  model.positions = Positions::rotary;
  model.mlp = MlpCore::swiglu;
  model.biases = Biases::qkv;
  model.qk_norm = qk_norm;
  model.ffn = 3 * model.hidden;
  check_config(model);
  return config;
}

// One run: the results of each step and, on the group's rank 0, every tensor after it.
struct Record {
  std::vector<StepResult> results;
  std::vector<std::map<std::string, std::vector<double>>> tensors;
  std::map<std::string, Shape> shapes;
  std::vector<double> validation_losses;  // after the first step and after the last
  std::vector<std::string> samples;       // at the end, on the group's rank 0
  bool same_on_all_ranks = true;          // losses, norms and learning rates, to the bit
  MemoryUse device_peak, host_peak;
  ProcessGrid grid;
  Prediction prediction;
  TrafficEntries communicated;  // moved bytes of collectives: of all ranks of the group

  // A tensor after a step, as it was given to the record: so that parts of it can be told.
  ConstTensorView view(const std::string& name, size_t step) const {
    return {tensors.at(step).at(name).data(), DType::fp64, DeviceType::cpu, shapes.at(name)};
  }
};

// Every tensor of one kind, on the group's rank 0.
template <class T>
void record_tensors(Session<T>& session, std::string_view kind, Record& record) {
  session.visit(kind, [&](const ParameterSpec& parameter, ConstTensorView tensor) {
    const std::string name = concat(kind, ".", parameter.name);
    record.shapes[name] = tensor.shape();
    std::vector<double>& values = record.tensors.back()[name];
    dispatch_float(tensor.dtype(), [&](auto zero) {
      const auto* const elements = tensor.as<decltype(zero)>();
      values.assign(elements, elements + tensor.num_elements());
    });
  });
}

// What the model writes, as a run samples it: the likeliest, and drawn by chance.
template <class T>
std::vector<std::string> samples_of(Session<T>& session, bool is_first,
                                    const MixtureMaker& mixture) {
  std::vector<std::string> samples;
  const auto visit = [&](const TensorSink& sink) { session.visit(kParam, sink); };
  RunConfig config = session.config;
  config.sample_tokens = 24;
  for (double temperature : {0.0, 0.8}) {
    config.temperature = temperature;
    Memory memory(DeviceType::cpu, "host", 0);
    if (is_first) {
      Vocabulary bytes;
      bytes.is_text = true;
      samples.push_back(sample_text(config, bytes, 0, memory, visit, mixture));
    } else {
      visit(nullptr);
    }
  }
  return samples;
}

// Whether all ranks of the group have the same numbers.
inline bool same_on_all(Communicator& group, std::vector<double> numbers) {
  const size_t count = numbers.size();
  for (size_t i = 0; i < count; ++i) numbers.push_back(-numbers[i]);
  Stream host(DeviceType::cpu);
  const TensorView view(numbers.data(), DType::fp64, DeviceType::cpu, {numbers.size()});
  group.all_reduce(host, view, {Purpose::control, Reduction::max}).wait(host);
  bool same = true;  // the largest is the smallest
  for (size_t i = 0; i < count; ++i) same = same && numbers[i] == -numbers[count + i];
  return same;
}

// Runs a trainer for kSteps, with an evaluation of two batches after the first, which must not
// disturb the others, and of one batch after the last. Collective over `group`, and where
// `registered` is given over the node. `collecting`: as for Session.
template <class T>
Record record_run(const RunConfig& config, Communicator& group, MemorySource* registered,
                  const typename T::Flags& flags = {}, Communicator* collecting = nullptr) {
  Session<T> session(config, group, registered, flags, nullptr, collecting);
  T& trainer = *session.trainer;
  Record record;
  record.grid = session.grid;
  record.prediction = predict<T>(config, session.grid, flags);
  const auto evaluate = [&](size_t num_batches) {
    group.count_as_control(true);  // as a run does
    record.validation_losses.push_back(trainer.evaluate(num_batches));
    group.count_as_control(false);
  };
  for (int step = 0; step < kSteps; ++step) {
    record.results.push_back(trainer.step());
    record.tensors.emplace_back();
    if (step == 0) evaluate(2);  // it leaves all tensors as they are, too
    for (std::string_view kind : kDumpedKinds) record_tensors(session, kind, record);
  }
  evaluate(1);
  const Program program = make_program<T>(flags);
  record.samples = samples_of(session, group.rank() == 0,
                              program.make_mixture ? program.make_mixture(config) : nullptr);
  record.device_peak = session.device.peak();
  record.host_peak = session.host.peak();
  record.communicated = group.group_entries();
  std::vector<double> numbers = record.validation_losses;
  for (const StepResult& r : record.results) {
    numbers.insert(numbers.end(), {r.loss, r.grad_norm, r.learning_rate});
  }
  record.same_on_all_ranks = same_on_all(group, numbers);
  return record;
}

// Peak memory of every category and what each axis communicates are as predicted, to the byte, and
// so are the bytes that have moved between the ranks, counted where they move.
inline void require_as_predicted(const Record& record) {
  CHECK(record.device_peak == record.prediction.device);
  CHECK(record.host_peak == record.prediction.host);
  size_t num_lines = 0;
  for (const auto& [key, measured] : record.communicated) {
    if (key.purpose == Purpose::control) continue;
    INFO(name_of(key));
    REQUIRE(record.prediction.step.count(key) == 1);
    const Traffic predicted = record.prediction.step.at(key).times(kSteps);
    ++num_lines;
    if (predicted.at_most) {
      CHECK(measured.calls == predicted.calls);
      CHECK(measured.moved.bytes <= record.grid.size(key.axis) * predicted.payload_bytes);
      continue;
    }
    CHECK(measured.calls == predicted.calls);
    CHECK(measured.payload_bytes == predicted.payload_bytes);
    CHECK(measured.moved.bytes ==
          group_bytes(key.collective, record.grid.size(key.axis), predicted));
  }
  CHECK(num_lines == record.prediction.step.size());
}

// What is compared how: in every part of a tensor max |difference| <= tolerance * its largest
// element (tools/compare: rows of the embeddings; query, key and value).
struct Bounds {
  double tolerance = 0;  // 0 = bitwise
  // For parameters, absolute, beside the tolerance. In fp64 none is needed, but for the key bias
  // (design: AdamW divides its rounding-sized gradient by its own size).
  double param_allowance = 0;
};

// The tensors, losses and norms of two runs that differ by more than the bounds: "step 2:
// grad.wte.weight: max relative 1e-3 row 7". Gradients come first, as parameters are judged by
// them. Samples must be the same where parameters are the same but for rounding in fp64: a draw
// would have to fall within 1e-11 of the border between two tokens.
inline std::vector<std::string> differences(const Record& a, const Record& b, const Bounds& bounds,
                                            const OptimizerConfig& optimizer) {
  std::vector<std::string> found;
  DumpComparer comparer({.tolerance = bounds.tolerance,
                         .learning_rate = optimizer.learning_rate,
                         .epsilon = optimizer.epsilon});
  for (size_t s = 0; s < kSteps; ++s) {
    const auto judge = [&](const std::string& name, ConstTensorView x, ConstTensorView y) {
      const TensorDifference d = comparer.compare(s + 1, name, x, y);
      const bool is_param = name.starts_with("param.") && d.num_not_finite == 0;
      if (d.passes || (is_param && d.max_absolute <= bounds.param_allowance)) return;
      found.push_back(concat("step ", s + 1, ": ", name, ": max relative ", d.max_relative, " ",
                             d.part, " ", d.remark));
    };
    const auto judge_number = [&](const std::string& name, const double& x, const double& y) {
      const auto view = [](const double& number) {
        return ConstTensorView(&number, DType::fp64, DeviceType::cpu, {1});
      };
      judge(name, view(x), view(y));
    };
    judge_number("loss", a.results[s].loss, b.results[s].loss);
    judge_number("grad_norm", a.results[s].grad_norm, b.results[s].grad_norm);
    if (a.tensors[s].size() != b.tensors[s].size()) found.push_back("another number of tensors");
    for (std::string_view kind : kDumpedKinds) {
      for (const auto& [name, values] : a.tensors[s]) {
        if (!name.starts_with(concat(kind, "."))) continue;
        if (!b.tensors[s].contains(name)) {
          found.push_back(concat("step ", s + 1, ": ", name, " is missing"));
        } else {
          judge(name, a.view(name, s), b.view(name, s));
        }
      }
    }
    if (s == 0 || s == kSteps - 1) {
      const size_t i = s == 0 ? 0 : 1;
      judge_number("validation_loss", a.validation_losses[i], b.validation_losses[i]);
    }
  }
  if (!b.same_on_all_ranks) found.push_back("ranks report other losses or norms");
  if (bounds.param_allowance == 0 && a.samples != b.samples) found.push_back("other samples");
  return found;
}

// Lesson 01 on one rank: the oracle.
inline Record record_oracle(RunConfig config) {
  Communicator alone{std::make_unique<OneRank>()};
  config.micro_batch_size = config.global_batch_size;
  return record_run<SingleGpuTrainer>(config, alone, nullptr);
}
inline Record record_oracle(DType dtype) { return record_oracle(equivalence_config(dtype, 24)); }

inline Bounds bounds_for(DType dtype) {
  // fp64: a gradient element sums 24 * 16 tokens, and rounding passes through two blocks; the sums
  // differ by far less than 1e-11 of the part's largest, and any mistake by far more. That also
  // holds for rows of tokens that were not read: what the classifier adds to them is small, but all
  // of it is small. Measured over all layouts: 2.5e-13 at most.
  if (dtype == DType::fp64) return {.tolerance = 1e-11};
  // fp32: 384 terms in another order differ by at most 384 * 2^-24 = 2.3e-5 of the sum of their
  // sizes; the terms of a part's largest element do not cancel much, so ten times that is taken
  // (measured: 1.3e-4 at most). AdamW moves an element by about the learning rate a step, whichever
  // sign rounding gives to a gradient that is next to nothing.
  return {.tolerance = 2.3e-4, .param_allowance = 2 * kSteps * OptimizerConfig().learning_rate};
}

// By what part of itself rounding to bf16 or fp16 typically moves a number: a quarter of the last
// bit of numbers just above a power of two; twice that at most.
inline double typical_rounding(DType dtype) { return dtype == DType::bf16 ? 0x1p-9 : 0x1p-12; }

// How two runs' tensors of a name differ after a step.
inline TensorDifference difference_of(const Record& a, const Record& b, const std::string& name,
                                      size_t step) {
  return compare_values(name, a.view(name, step), b.view(name, step), 1);
}

// The largest |difference| of a tensor, in each of its parts relative to the part's largest
// element; NaN if any is.
inline double tensor_error(const Record& exact, const Record& rounded, const std::string& name,
                           size_t step = 0) {
  const TensorDifference difference = difference_of(exact, rounded, name, step);
  return difference.num_not_finite > 0 ? std::nan("") : difference.max_relative;
}

// What a run in bf16 or fp16 has that is not near `exact`, lesson 01's run in fp64, on rank 0.
inline std::vector<std::string> low_precision_differences(const Record& exact,
                                                          const Record& rounded,
                                                          const RunConfig& config) {
  // A number passes about 40 roundings of u on its way through two blocks and back. They add up
  // like a random walk, sqrt(40) u = 6 u of its own size; elements that are sums of cancelling
  // terms lose more against the largest of their part: a factor of 10. The first moment is the
  // gradient, clipped by the norm, which has less than its error; the second its square: twice
  // that.
  const double u = typical_rounding(config.dtype);
  // A parameter begins rounded (weights beside 1 are below 0.15) and moves by the learning rate at
  // most, whichever sign rounding gives to a gradient that is next to nothing.
  const double moved = 2 * kSteps * config.optimizer.learning_rate;
  std::vector<std::string> found;
  const auto require = [&](const std::string& name, double error, double bound) {
    if (!(error <= bound)) found.push_back(concat(name, ": off by ", error, ", allowed ", bound));
  };
  if (exact.tensors[0].size() != rounded.tensors[0].size()) found.push_back("other tensors");
  for (const auto& [name, values] : exact.tensors[0]) {
    if (!rounded.tensors[0].contains(name)) {
      found.push_back(name + " is missing");
    } else if (name.starts_with("param.")) {
      double largest = 0;
      for (double value : values) largest = std::max(largest, std::abs(value));
      require(name, difference_of(exact, rounded, name, kSteps - 1).max_absolute,
              u * largest + moved);
    } else {
      require(name, tensor_error(exact, rounded, name),
              name.starts_with("grad.") ? 60 * u : 120 * u);
    }
  }
  for (size_t step = 0; step < kSteps; ++step) {
    const StepResult &a = exact.results[step], &b = rounded.results[step];
    require(concat("loss of step ", step + 1), std::abs(a.loss - b.loss), 6 * u);
    require(concat("norm of step ", step + 1), std::abs(a.grad_norm / b.grad_norm - 1), 6 * u);
  }
  for (size_t i = 0; i < exact.validation_losses.size(); ++i) {
    require("validation loss", std::abs(exact.validation_losses[i] - rounded.validation_losses[i]),
            6 * u);
  }
  return found;
}

}  // namespace ladder::testing
