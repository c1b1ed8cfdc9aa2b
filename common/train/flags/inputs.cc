#include "common/train/flags/inputs.h"

#include <array>
#include <charconv>
#include <filesystem>
#include <span>

#include "common/data/encode.h"
#include "common/data/task.h"
#include "common/io/printable.h"
#include "common/io/safetensors_files.h"
#include "common/model/adapter_config.h"
#include "common/model/published_config.h"
#include "common/model/weights.h"

namespace ladder {

namespace {

// Returns how the texts of examples become tokens, of which every one is checked.
std::function<std::vector<int32_t>(const std::string&)> encoder_of(const RunConfig& config) {
  std::function<std::vector<int32_t>(const std::string&)> encode = byte_tokens;
  if (!config.tokenizer.empty()) {
    encode = named_by("--tokenizer", [&] { return encoder(config.tokenizer); });
  }
  return [encode, vocab_size = config.model.vocab_size](const std::string& text) {
    std::vector<int32_t> tokens = encode(text);
    for (const int32_t token : tokens) {
      if (static_cast<size_t>(token) < vocab_size) continue;
      throw UserError(concat("token ", token, " is beyond the vocabulary of ", vocab_size));
    }
    return tokens;
  };
}

Corpus open_examples(const RunConfig& config) {
  const std::vector<std::string>& labels = config.model.labels;
  TaskRules rules = {.sequence_length = config.model.sequence_length,
                     .encode = encoder_of(config),
                     .labels = labels,
                     .is_text = config.tokenizer.empty()};
  if (labels.empty() && !rules.is_text) {
    const auto end =
        named_by("--tokenizer", [&] { return Tokenizer(config.tokenizer).end_of_text(); });
    if (!end) {
      throw UserError(concat("--tokenizer ", config.tokenizer,
                             ": has no token that ends a text, with which --task ends answers"));
    }
    rules.end = *end;
  }
  return config.task.empty() ? verses_of_books(rules) : open_task(config.task, rules);
}

}  // namespace

Corpus open_corpus(const RunConfig& config) {
  if (config.has_examples()) return open_examples(config);
  Corpus corpus = config.data.empty() ? Corpus::king_james() : Corpus::open(config.data);
  if (config.optimizer.num_steps > 0)
    corpus.require(config.model.vocab_size, config.model.sequence_length, config.model.is_masked());
  return corpus;
}

namespace {

// Opens the tokenizer of --tokenizer.
Tokenizer open_tokenizer(const RunConfig& config, const Corpus& corpus) {
  const std::string& path = config.tokenizer;
  const auto refuse = [&](const std::string& why) {
    throw UserError(concat("--tokenizer ", path, ": ", why));
  };
  const Tokenizer tokenizer = named_by("--tokenizer", [&] { return Tokenizer(path); });
  if (corpus.is_text() && config.optimizer.num_steps > 0) {
    refuse("tokens are the bytes of a text here; tools/tokenize makes token shards of it");
  }
  if (tokenizer.size() > config.model.vocab_size) {
    refuse(concat("has tokens up to ", tokenizer.size() - 1, ", beyond the vocabulary of ",
                  config.model.vocab_size, "; give the tokenizer of --data, or --vocab ",
                  tokenizer.size()));
  }
  return tokenizer;
}

// Keys among the settings of a checkpoint, and the value of the first if tokens are bytes.
constexpr const char *kVocabulary = "vocabulary", *kEndOfText = "end of text", *kBytes = "bytes";

}  // namespace

Vocabulary open_vocabulary(const RunConfig& config, const Corpus& corpus) {
  Vocabulary vocabulary;
  vocabulary.is_text = corpus.is_text() && config.tokenizer.empty();
  if (!config.tokenizer.empty()) {
    vocabulary.tokenizer = open_tokenizer(config, corpus);
    vocabulary.end_of_text = vocabulary.tokenizer->end_of_text();
  }
  if (vocabulary.is_text || vocabulary.end_of_text) return vocabulary;
  const std::string published = published_config_of(config);
  if (published.empty()) return vocabulary;
  const auto end = named_by("--init", [&] { return published_end_of_text(published); });
  if (!end || *end >= config.model.vocab_size) return vocabulary;
  const auto token = static_cast<int32_t>(*end);
  if (!vocabulary.tokenizer || vocabulary.tokenizer->has(token)) vocabulary.end_of_text = token;
  return vocabulary;
}

void note_vocabulary(const Vocabulary& vocabulary, std::map<std::string, std::string>& settings) {
  settings[kVocabulary] = vocabulary.is_text ? kBytes : "a tokenizer's";
  if (vocabulary.end_of_text) settings[kEndOfText] = concat(*vocabulary.end_of_text);
}

Vocabulary vocabulary_of(const CheckpointIndex& index, const std::string& path) {
  Vocabulary vocabulary;
  const auto kind = index.settings.find(kVocabulary), end = index.settings.find(kEndOfText);
  vocabulary.is_text = kind != index.settings.end() && kind->second == kBytes;
  if (end == index.settings.end()) return vocabulary;
  const std::string& text = end->second;
  int32_t token = -1;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), token);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || token < 0 ||
      static_cast<size_t>(token) >= index.model.vocab_size) {
    throw UserError(concat(path, ": its setting \"", kEndOfText, "\" is ", quoted_name(text),
                           ", expected a token below ", index.model.vocab_size));
  }
  vocabulary.end_of_text = token;
  return vocabulary;
}

void complete_vocabulary(Vocabulary& vocabulary, const RunConfig& config, const Vocabulary& then) {
  if (vocabulary.tokenizer) return;
  const bool has_data = config.optimizer.num_steps > 0;
  if (!has_data) vocabulary.is_text = then.is_text;
  if (!has_data || (!vocabulary.is_text && !vocabulary.end_of_text)) {
    vocabulary.end_of_text = then.end_of_text;
  }
}

int32_t first_token(const Corpus& corpus, const Vocabulary& vocabulary, size_t vocab_size) {
  if (vocabulary.is_text && vocab_size > size_t{'\n'}) return '\n';
  if (vocabulary.end_of_text) return *vocabulary.end_of_text;
  int32_t token;
  corpus.read(0, std::span(&token, 1));
  return static_cast<size_t>(token) < vocab_size ? token : 0;
}

std::string published_config_of(const RunConfig& config) {
  std::error_code error;
  const std::string path = std::filesystem::path(config.init) / "config.json";
  return std::filesystem::is_directory(config.init, error) && std::filesystem::exists(path, error)
             ? path
             : std::string();
}

std::vector<std::string> init_files(const RunConfig& config) {
  if (config.init.empty()) return {};
  std::vector<std::string> files =
      named_by("--init", [&] { return files_of_tensors(config.init); });
  const std::string published = published_config_of(config);
  if (!published.empty()) files.push_back(published);
  return files;
}

std::vector<NamedFile> files_beside(const RunConfig& config) {
  constexpr std::array kNames = {
      "config.json",     "generation_config.json",  "tokenizer.json",    "tokenizer_config.json",
      "tokenizer.model", "special_tokens_map.json", "added_tokens.json", "vocab.json",
      "merges.txt",      "chat_template.jinja"};
  std::vector<NamedFile> files;
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(config.init, error);
  const std::filesystem::path tokenizer = config.tokenizer;
  for (const char* name : kNames) {
    if (is_folder) files.push_back({"--init", concat(config.init, "/", name)});
    if (!config.tokenizer.empty()) {
      files.push_back({"--tokenizer", tokenizer.parent_path() / name});
    }
  }
  return files;
}

std::vector<std::string> adapter_files(const RunConfig& config) {
  if (config.init_adapter.empty()) return {};
  return {concat(config.init_adapter, "/", kAdapterConfig),
          concat(config.init_adapter, "/", kAdapterWeights)};
}

void check_weights(const RunConfig& config, bool all_values) {
  const std::string published = published_config_of(config);
  if (!published.empty()) {
    named_by("--init", [&] { require_same_model(published, config.model); });
  }
  const Layout layout(config.model, 1);
  const WeightsFile file(config.init, layout);
  if (all_values) file.check_values(layout, config.dtype);
  if (config.init_adapter.empty()) return;
  const WeightsFile adapters = WeightsFile::of_adapters(config.init_adapter, layout);
  if (all_values) adapters.check_values(layout, config.dtype);
}

}  // namespace ladder
