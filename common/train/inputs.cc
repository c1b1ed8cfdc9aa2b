#include "common/train/inputs.h"

#include <filesystem>

#include "common/io/path.h"
#include "common/io/safetensors_files.h"
#include "common/model/published_config.h"
#include "common/model/weights.h"

namespace ladder {

Corpus open_corpus(const RunConfig& config) {
  Corpus corpus = config.data.empty() ? Corpus::king_james() : Corpus::open(config.data);
  corpus.require(config.model.vocab_size, config.model.sequence_length);
  return corpus;
}

std::optional<Tokenizer> open_tokenizer(const RunConfig& config, const Corpus& corpus) {
  const std::string& path = config.tokenizer;
  if (path.empty()) return std::nullopt;
  const auto refuse = [&](const std::string& why) {
    throw UserError(concat("--tokenizer ", path, ": ", why));
  };
  const Tokenizer tokenizer = named_by("--tokenizer", [&] { return Tokenizer(path); });
  if (corpus.is_text()) {
    refuse("tokens are the bytes of a text here; tools/tokenize makes token shards of it");
  }
  if (tokenizer.size() > config.model.vocab_size) {
    refuse(concat("has tokens up to ", tokenizer.size() - 1, ", beyond the vocabulary of ",
                  config.model.vocab_size, "; give the tokenizer of --data, or --vocab ",
                  tokenizer.size()));
  }
  return tokenizer;
}

namespace {

// Returns the path of the config.json in the folder of --init. It is empty if there is none.
std::string published_config_of(const RunConfig& config) {
  std::error_code error;
  const std::string path = std::filesystem::path(config.init) / "config.json";
  return std::filesystem::is_directory(config.init, error) && std::filesystem::exists(path, error)
             ? path
             : std::string();
}

}  // namespace

std::vector<std::string> init_files(const RunConfig& config) {
  if (config.init.empty()) return {};
  std::vector<std::string> files =
      named_by("--init", [&] { return files_of_tensors(config.init); });
  const std::string published = published_config_of(config);
  if (!published.empty()) files.push_back(published);
  return files;
}

void check_weights(const RunConfig& config, bool all_values) {
  const std::string published = published_config_of(config);
  if (!published.empty()) {
    named_by("--init", [&] {
      require_same_model(published, read_published_config(published), config.model);
    });
  }
  const Layout layout(config.model, 1);
  const WeightsFile file(config.init, layout);
  if (all_values) file.check_values(layout, config.dtype);
}

}  // namespace ladder
