#include "common/train/inputs.h"

#include "common/model/weights.h"

namespace ladder {

Corpus open_corpus(const RunConfig& config) {
  Corpus corpus = config.data.empty() ? Corpus::king_james() : Corpus::open(config.data);
  corpus.require(config.model.vocab_size, config.model.sequence_length);
  return corpus;
}

void check_weights(const RunConfig& config, bool all_values) {
  const Layout layout(config.model, 1);
  const WeightsFile file(config.init, layout);
  if (all_values) file.check_values(layout, config.dtype);
}

}  // namespace ladder
