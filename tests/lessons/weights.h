// Weights from a file: every lesson and layout begins with just these.
#pragma once

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/io/safetensors.h"
#include "tests/lessons/sharded.h"

namespace ladder::testing {

// A file of weights for --init that this process alone uses; removed with the object. In fp32, and
// nearly all of them numbers that bf16 and fp16 do not have. `adjust` may change a tensor's.
class WeightsOnDisk {
 public:
  using Adjust = std::function<void(const std::string& name, std::vector<float>& values)>;
  explicit WeightsOnDisk(
      const ModelConfig& model, const Adjust& adjust = [](const auto&, auto&) {}) {
    const char* const folder = std::getenv("TEST_TMPDIR");
    path_ = concat(folder != nullptr ? folder : "/tmp", "/weights_", getpid(), ".safetensors");
    const Layout layout(model, 1);
    std::vector<SafetensorsWriter::Tensor> tensors;
    for_parameters_in(
        layout, 0, layout.num_elements(), [&](const Parameter& p, size_t, size_t, size_t) {
          const bool is_matrix = p.shape.num_dims() == 2;
          tensors.push_back(
              {p.name, DType::fp32,
               is_matrix ? std::vector{p.shape[0], p.shape[1]} : std::vector{p.shape[0]}});
        });
    SafetensorsWriter writer(path_, tensors);
    for_parameters_in(
        layout, 0, layout.num_elements(), [&](const Parameter& p, size_t begin, size_t, size_t) {
          std::vector<float>& values = values_[p.name] = values_of(p, begin);
          adjust(p.name, values);
          writer.write(
              ConstTensorView(values.data(), DType::fp32, DeviceType::cpu, {values.size()}));
        });
    writer.finish();
  }
  ~WeightsOnDisk() { std::filesystem::remove(path_); }
  WeightsOnDisk(const WeightsOnDisk&) = delete;

  const std::string& path() const { return path_; }
  const std::vector<float>& values(const std::string& name) const { return values_.at(name); }

 private:
  // As large as those that training begins with, and none like another.
  static std::vector<float> values_of(const Parameter& parameter, size_t begin) {
    std::vector<float> values(parameter.shape.num_elements());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(parameter.initial_value +
                                     0.03 * std::sin(0.7 * static_cast<double>(begin + i) + 1));
    }
    return values;
  }

  std::string path_;
  std::map<std::string, std::vector<float>> values_;
};

// On groups of `ranks` ranks: in fp32 and bf16 training begins with the numbers of the file, to the
// bit (in bf16 the masters do), and in fp64 it goes on as lesson 01's.
template <class T>
void require_weights_from_file(RunConfig config, size_t ranks,
                               const typename T::Flags& flags = {}) {
  const WeightsOnDisk file(config.model);
  config.init = file.path();
  Groups groups(ranks);
  for (DType dtype : {DType::fp32, DType::bf16}) {
    if (dtype == DType::bf16 && T::kLesson.info.precisions == Precisions::full) continue;
    config.dtype = dtype;
    INFO("weights from a file in " << name_of(dtype));
    Session<T> session(config, *groups.group, &groups.node_memory, flags);
    session.visit(kParam, [&](const ParameterSpec& p, ConstTensorView tensor) {
      const std::vector<float>& expected = file.values(p.name);
      INFO(p.name);
      REQUIRE(tensor.num_elements() == expected.size());
      CHECK(std::equal(expected.begin(), expected.end(), tensor.as<float>()));
    });
  }
  config.dtype = DType::fp64;
  const Record record = record_run<T>(config, *groups.group, &groups.node_memory, flags);
  if (groups.group->rank() != 0) return;
  require_none(
      differences(record_oracle(config), record, bounds_for(DType::fp64), config.optimizer));
}

}  // namespace ladder::testing
