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

std::string muon_text(const RunConfig& config, Trainer& trainer, int64_t num_steps,
                      const Job& job) {
  if (config.optimizer.kind != OptimizerKind::muon) return "";
  size_t matrices = 0, calls = 0;
  for (const UnitSpec& unit : describe(config.model).units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      if (!parameter.trainable || parameter.matrix.count == 0) continue;
      matrices += num_matrices(config.optimizer, parameter.matrix);
    }
  }
  const ModelState& state = trainer.state();
  const std::vector<uint64_t> of_all =
      job.all_gather({state.num_at_home(), static_cast<uint64_t>(state.num_orthogonalized())});
  size_t at_homes = 0;
  for (size_t i = 0; i < of_all.size(); i += 2) {
    at_homes += of_all[i];
    calls += of_all[i + 1];
  }
  // Where several ranks, or groups of ranks, have whole weights, each has homes for all matrices.
  const size_t copies = std::max<size_t>(1, at_homes / matrices);
  const size_t expected = matrices * static_cast<size_t>(num_steps) * copies;
  return concat("\n  Newton-Schulz: ", matrices, matrices == 1 ? " matrix x " : " matrices x ",
                counted(static_cast<size_t>(num_steps), "step"),
                copies == 1 ? "" : concat(" x ", copies, " copies"), " = ", with_commas(expected),
                " calls, measured ", with_commas(calls), calls == expected ? "" : "  differs",
                "\n");
}

}  // namespace ladder
