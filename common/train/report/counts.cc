#include "common/train/report/counts.h"

#include <algorithm>

#include "common/io/text.h"
#include "common/model/muon.h"
#include "common/train/trainer/model_state.h"

namespace ladder {

std::string counted_text(const CountedTokens& own, const ProcessGrid& grid, const Job& job) {
  if (own.all == 0) return "";
  size_t classified = 0;
  for (const uint64_t count : job.all_gather({own.classified})) classified += count;
  classified /= grid.tensor_size;  // such ranks compute the losses of the same tokens
  return format("\n  counted tokens: %s of %s (%.3g %%); losses were divided by %s%s\n",
                with_commas(classified).c_str(), with_commas(own.all).c_str(),
                100.0 * static_cast<double>(classified) / static_cast<double>(own.all),
                with_commas(own.divided_by).c_str(),
                own.divided_by == classified ? "" : "  differs");
}

namespace {

// Returns a line for each rule: the tensors that it updates, and what that costs.
std::string rules_text(const Rules& rules, const Layout& model) {
  std::string text;
  for (size_t rule = 0; rule < rules.size(); ++rule) {
    size_t tensors = 0, elements = 0;
    double flops = 0;
    for (const Unit& unit : model.units()) {
      for (const Parameter& parameter : unit.parameters) {
        if (!parameter.trainable || rule_of(rules, parameter.matrix) != rule) continue;
        ++tensors;
        elements += parameter.shape.num_elements();
        flops += rules[rule]->flops(parameter);
      }
    }
    text += concat(text.empty() ? "\n  " : "  ", rules[rule]->name(), " updates ",
                   counted(tensors, "tensor"), ", ", with_commas(elements), " elements, ",
                   format("%.3g", flops), " FLOP a step\n");
  }
  return text;
}

// Returns how many matrices an update needs whole.
size_t num_matrices(const OptimizerConfig& config, const Rules& rules, const Layout& model) {
  size_t matrices = 0;
  for (const Unit& unit : model.units()) {
    for (const Parameter& parameter : unit.parameters) {
      const bool has_rule =
          parameter.trainable && rules[rule_of(rules, parameter.matrix)]->needs_matrices();
      if (has_rule) matrices += num_matrices(config, parameter.matrix);
    }
  }
  return matrices;
}

}  // namespace

std::string optimizer_text(const RunConfig& config, Trainer& trainer, int64_t num_steps,
                           const Job& job) {
  const OptimizerConfig& optimizer = config.optimizer;
  if (optimizer.name == OptimizerConfig().name) return "";
  const Layout model(config.model, 1);
  const ModelState& state = trainer.state();
  const std::string text = rules_text(state.rules, model);
  const size_t matrices = num_matrices(optimizer, state.rules, model);
  if (matrices == 0) return text;
  const MatrixWork work = state.matrix_work();
  const std::vector<uint64_t> of_all = job.all_gather({work.each, work.so_far});
  size_t at_homes = 0, calls = 0;
  for (size_t i = 0; i < of_all.size(); i += 2) {
    at_homes += of_all[i];
    calls += of_all[i + 1];
  }
  // Where several ranks, or groups of ranks, have whole weights, each has homes for all matrices.
  const size_t copies = std::max<size_t>(1, at_homes / matrices);
  const size_t expected = matrices * static_cast<size_t>(num_steps) * copies;
  return concat(text, "  Newton-Schulz: ", matrices, matrices == 1 ? " matrix x " : " matrices x ",
                counted(static_cast<size_t>(num_steps), "step"),
                copies == 1 ? "" : concat(" x ", copies, " copies"), " = ", with_commas(expected),
                " calls, measured ", with_commas(calls), calls == expected ? "" : "  differs",
                "\n");
}

}  // namespace ladder
