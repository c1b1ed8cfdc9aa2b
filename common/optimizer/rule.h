// An update rule: which parameters it takes, what it keeps of them, and how it updates them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/model/layout.h"
#include "common/model/optimizer.h"
#include "kernels/runtime/stream.h"

namespace ladder {

// What an update needs besides the tensors. It is made once a step, from the norm of the gradient.
struct UpdateStep {
  int64_t number = 1;  // of the update, from 1
  double learning_rate = 0;
  double grad_scale = 1;  // multiplies the gradient: the factor of clipping / the loss scale
};

// The elements of a parameter that this rank updates. All views are (n).
struct UpdateTensors {
  const Parameter* parameter;
  TensorView param;                    // in the accumulation dtype
  ConstTensorView grad;                // in the same dtype
  TensorView copy;                     // of the parameter, in 16 bits; empty: there is none
  std::vector<TensorView> state = {};  // in the order of UpdateRule::state()
};

// A run has an ordered list of rules. The first that takes a parameter has it: it alone keeps state
// of the parameter and updates it.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  virtual std::string_view name() const = 0;  // as --optimizer has it
  // Returns whether it takes parameters of this form, whose count is 0 if they are no matrices of a
  // block.
  virtual bool takes(const MatrixForm& form) const = 0;
  // Returns whether it needs whole matrices. Other rules work element by element.
  virtual bool needs_matrices() const { return false; }
  // Returns the kinds of tensors that it keeps of each parameter (slices.h).
  virtual std::vector<std::string_view> state() const = 0;
  // Updates all these parameters, and then the copies. Gradients are not changed. A rule that needs
  // no whole matrices only queues its kernels.
  virtual void update(Stream& stream, const std::vector<UpdateTensors>& tensors,
                      const UpdateStep& step) = 0;
  // Returns the floating-point operations of an update of the whole parameter.
  virtual double flops(const Parameter& parameter) const = 0;
};

// What timelines call an update: the mark of a step's end.
inline constexpr std::string_view kUpdateRange = "update";

using Rules = std::vector<std::unique_ptr<UpdateRule>>;

// How many whole matrices a rank updates.
struct MatrixWork {
  size_t each = 0, so_far = 0;  // matrices: in an update, and in all
};

// Updates parameters by whole matrices, of which other ranks may have parts.
using MatrixUpdate =
    std::function<void(Stream&, const std::vector<UpdateTensors>&, const UpdateStep&)>;

// Returns the rules of OptimizerConfig::name. Those that need whole matrices update by `matrices`;
// without it such rules only tell what they take and keep. REQUIRES: is_optimizer(config.name).
Rules make_rules(const OptimizerConfig& config, const MatrixUpdate& matrices = nullptr);
// Returns the names that --optimizer takes.
std::vector<std::string> optimizer_names();
bool is_optimizer(std::string_view name);  // whether it is one of them

// The flags that decide what an optimizer keeps, with their values, as a checkpoint has them.
using OptimizerSettings = std::map<std::string, std::string>;
OptimizerSettings optimizer_settings(const OptimizerConfig& config);
// Returns an optimizer that keeps the same as the one with these settings.
OptimizerConfig optimizer_of(const OptimizerSettings& settings);
// Returns why an optimizer cannot go on with what another one has kept, such as "--optimizer was
// muon"; empty if it can.
std::string other_state(const OptimizerConfig& then, const OptimizerConfig& now);

// Returns whether an update runs this kernel. A simulated host records kernels by their names
// alone.
bool is_update_kernel(std::string_view kernel);

// Returns the index of the rule that has parameters of this form.
size_t rule_of(const Rules& rules, const MatrixForm& form);
// Returns whether a run keeps this kind (slices.h) of a parameter. Of a frozen one it keeps kParam
// alone, of another what the first rule that takes it keeps.
bool keeps(const OptimizerConfig& config, std::string_view kind, const ParameterSpec& parameter);

}  // namespace ladder
