#include "common/train/flags/sampling_flags.h"

#include <array>
#include <charconv>
#include <filesystem>
#include <sstream>
#include <utility>

#include "common/data/encode.h"
#include "common/io/path.h"
#include "common/io/printable.h"
#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"
#include "common/train/flags/virtual_flags.h"

namespace ladder {

void SamplingFlags::add_to(FlagTable& flags, RunConfig& config) {
  flags.heading("Sampling", ComparedBy::nothing);
  flags.add("--sample", tokens_, "Tokens to sample at the end; 0 = none [preset]",
            whole(0, 1'000'000), {.in_run = on_real_device(in_run(&RunConfig::sample_tokens))});
  flags.add(
      "--prompt", config.prompt,
      "Text for samples to continue. With token shards and no --tokenizer: token numbers, such as "
      "'73 110' [a line break; with shards the end-of-text token, or else their first token]");
  flags.add("--temperature", config.temperature, "Of sampling; 0 = the likeliest token [0.8]",
            real(0, 100));
  flags.add("--top-k", config.top_k, "Sample among the k likeliest; 0 = all [40]",
            whole(0, 100'000'000));
  flags.add("--tokenizer", config.tokenizer,
            "A byte-level BPE's tokenizer.json: samples from token shards, and prompts, are text "
            "[numbers]",
            {.file = FileUse::read});
}

void SamplingFlags::resolve(RunConfig& config, size_t default_tokens) const {
  const bool has_labels = !config.model.labels.empty();
  if (has_labels && ask(config)) {
    throw UserError("--sample: a model with a head gives labels, and no next token");
  }
  if (config.model.is_masked() && ask(config)) {
    throw UserError(concat(config.prompt.empty() ? "--sample" : "--prompt",
                           ": a model of --objective masked knows what stands after a token, too, "
                           "and continues no text; leave it out"));
  }
  const bool writes = !has_labels && !config.model.is_masked();
  config.sample_tokens = writes ? tokens_.value_or(default_tokens) : 0;
  if (!config.prompt.empty() && config.sample_tokens == 0) {
    throw UserError("--prompt: --sample 0 draws nothing; leave one of the two out");
  }
  if (config.optimizer.num_steps > 0) return;
  const std::array<std::pair<const char*, bool>, 5> asked = {{
      {"--dump", !config.dump.empty()},
      {"--metrics", !config.metrics.empty()},
      {"--tensorboard", !config.tensorboard.empty()},
      {"--trace", !config.trace.empty()},
      {"--checkpoint", !config.checkpoint.path.empty() && !config.checkpoint.resume},
  }};
  for (const auto& [flag, is_given] : asked) {
    if (!is_given) continue;
    const char* const resume =
        flag == asked.back().first ? ", or add --resume to sample from a checkpoint" : "";
    throw UserError(
        concat(flag, ": with --steps 0 there is no step to write; leave it out", resume));
  }
}

namespace {

// Throws UserError if the folder of --init has a tokenizer whose tokens are not the bytes.
void require_bytes(const RunConfig& config) {
  const std::string path = std::filesystem::path(config.init) / "tokenizer.json";
  std::error_code error;
  if (config.init.empty() || !std::filesystem::exists(path, error)) return;
  const Tokenizer tokenizer = named_by("--init", [&] { return Tokenizer(path); });
  for (size_t token = 0; token < tokenizer.size(); ++token) {
    const std::string byte(1, static_cast<char>(token));
    if (token < 256 && tokenizer.text_of(static_cast<int32_t>(token)) == byte) continue;
    throw UserError(concat("--init ", config.init, ": its tokens are not bytes; add --tokenizer ",
                           path, " for prompts and samples"));
  }
}

int32_t number_in(const std::string& word, size_t vocab_size) {
  int32_t number = -1;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  if (error == std::errc() && stop == end && number >= 0 &&
      static_cast<size_t>(number) < vocab_size) {
    return number;
  }
  throw UserError(concat("--prompt: '", one_line(word), "' is no token from 0 to ", vocab_size - 1,
                         "; for a text add --tokenizer"));
}

}  // namespace

std::vector<int32_t> prompt_tokens(const RunConfig& config, bool is_text) {
  const size_t vocab_size = config.model.vocab_size;
  std::vector<int32_t> tokens;
  // A run without steps has no data that say what the tokens of its weights are.
  const bool samples_init = config.optimizer.num_steps == 0 && !config.checkpoint.resume;
  if (is_text && (samples_init || !config.prompt.empty())) require_bytes(config);
  if (config.prompt.empty()) return tokens;
  if (!is_text && !config.tokenizer.empty()) {
    return named_by("--prompt: --tokenizer",
                    [&] { return encode(config.tokenizer, config.prompt); });
  }
  if (!is_text) {
    std::istringstream words(config.prompt);
    for (std::string word; words >> word;) tokens.push_back(number_in(word, vocab_size));
    if (tokens.empty()) throw UserError("--prompt: has no token");
    return tokens;
  }
  tokens = byte_tokens(config.prompt);
  for (const int32_t token : tokens) {
    if (static_cast<size_t>(token) < vocab_size) continue;
    throw UserError(concat("--prompt: byte ", token, " is beyond the vocabulary of ", vocab_size));
  }
  return tokens;
}

}  // namespace ladder
