#include "common/train/report/counts.h"

#include "common/io/text.h"
#include "common/model/description.h"
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
      matrices += config.optimizer.splits_qkv ? parameter.matrix.count : 1;
    }
  }
  const auto own = static_cast<uint64_t>(trainer.state().num_orthogonalized());
  for (const uint64_t of_rank : job.all_gather({own})) {
    calls += of_rank;
  }
  const size_t once = matrices * static_cast<size_t>(num_steps);
  return concat("\n  Newton-Schulz: ", matrices, matrices == 1 ? " matrix x " : " matrices x ",
                counted(static_cast<size_t>(num_steps), "step"), " = ", with_commas(once),
                " calls, measured ", with_commas(calls), calls == once ? "" : " on all ranks",
                "\n");
}

}  // namespace ladder
