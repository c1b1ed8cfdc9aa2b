#include "common/data/encode.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "common/data/byte_level.h"
#include "common/io/json_file.h"
#include "common/io/printable.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxBytes = size_t{256} << 20;

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool is_other(char c) { return !is_letter(c) && !is_digit(c) && !is_space(c); }

// Returns the length of the first word of an ASCII text as GPT-2 splits it, which is what this
// expression matches: 's|'t|'re|'ve|'m|'ll|'d| ?letters| ?digits| ?others|spaces before no
// word|spaces. REQUIRES: the text is not empty.
size_t first_word(std::string_view text) {
  for (std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(ending)) return ending.size();
  }
  const size_t begin = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  for (const auto is_of_kind : {is_letter, is_digit, is_other}) {
    size_t end = begin;
    while (end < text.size() && is_of_kind(text[end])) ++end;
    if (end > begin) return end;
  }
  size_t end = 0;
  while (end < text.size() && is_space(text[end])) ++end;
  // The last space belongs to the word after it.
  return end < text.size() && end > 1 ? end - 1 : end;
}

// The merges and numbers of a tokenizer.json. Pieces of words are in byte-level characters.
class BytePairs {
 public:
  explicit BytePairs(const std::string& path) : path_(path) {
    const Json json = read_json_object(path, kMaxBytes);
    try {
      require_known(json);
      splits_ = json.at("pre_tokenizer").value("use_regex", true);
      const Json& model = json.at("model");
      numbers_ = model.at("vocab").get<std::map<std::string, int32_t>>();
      for (const Json& merge : model.at("merges")) add_merge(merge);
      for (const Json& added : json.value("added_tokens", Json::array())) {
        added_[added.at("content")] = added.at("id");
      }
    } catch (const Json::exception&) {
      refuse("is not the tokenizer.json of a byte-level BPE, such as GPT-2's");
    }
    added_.erase("");
  }

  std::vector<int32_t> encode(std::string_view text) const {
    const bool is_ascii = std::ranges::none_of(text, [](char c) { return (c & 0x80) != 0; });
    if (splits_ && !is_ascii) {
      refuse(
          "the text has characters beyond ASCII, which cannot be split here as this tokenizer "
          "splits them; use ASCII, or for a prompt token numbers without --tokenizer");
    }
    std::vector<int32_t> tokens;
    while (!text.empty()) {
      const auto [begin, added] = next_added(text);
      for (std::string_view rest = text.substr(0, begin); !rest.empty();) {
        const size_t length = splits_ ? first_word(rest) : rest.size();
        add_word(rest.substr(0, length), tokens);
        rest.remove_prefix(length);
      }
      if (added == added_.end()) break;
      tokens.push_back(added->second);
      text.remove_prefix(begin + added->first.size());
    }
    return tokens;
  }

 private:
  using Added = std::map<std::string, int32_t, std::less<>>;

  [[noreturn]] void refuse(const std::string& why) const {
    throw UserError(concat(path_, ": ", why));
  }

  // Throws UserError if the file splits texts in a way that is not known here.
  void require_known(const Json& json) const {
    const Json none, normalizer = json.value("normalizer", none),
                     splitter = json.value("pre_tokenizer", none), &model = json.at("model");
    if (!normalizer.is_null()) refuse("its \"normalizer\" changes texts, which is not done here");
    const bool is_gpt2 =
        splitter.value("type", "") == "ByteLevel" && !splitter.value("add_prefix_space", true);
    if (!is_gpt2) {
      refuse(concat("its \"pre_tokenizer\" is ", shown(splitter),
                    "; only GPT-2's, ByteLevel without a space before the text, is known here"));
    }
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json value = model.value(affix, none);
      if (!value.is_null() && value != "") refuse(concat("\"", affix, "\" is not known here"));
    }
  }

  // A merge is "a b" or ["a", "b"]. Those that come first are done first.
  void add_merge(const Json& merge) {
    std::pair<std::string, std::string> symbols;
    if (merge.is_array()) {
      symbols = {merge.at(0), merge.at(1)};
    } else {
      const std::string text = merge;
      const size_t blank = text.find(' ');
      if (blank == text.npos) refuse(concat("the merge ", shown(merge), " has no two symbols"));
      symbols = {text.substr(0, blank), text.substr(blank + 1)};
    }
    ranks_.try_emplace(symbols, ranks_.size());
  }

  // Returns where the first added token begins in the text, and which it is: the longest one there.
  std::pair<size_t, Added::const_iterator> next_added(std::string_view text) const {
    std::pair<size_t, Added::const_iterator> first = {text.size(), added_.end()};
    for (auto added = added_.begin(); added != added_.end(); ++added) {
      const size_t at = text.find(added->first);
      const bool is_longer = at == first.first && first.second != added_.end() &&
                             added->first.size() > first.second->first.size();
      if (at < first.first || is_longer) first = {at, added};
    }
    return first;
  }

  // Appends the tokens of a word: again and again the two neighbours that come first in the list of
  // merges become one symbol.
  void add_word(std::string_view word, std::vector<int32_t>& tokens) const {
    std::vector<std::string> symbols;
    for (char byte : word) symbols.push_back(byte_level_character(static_cast<uint8_t>(byte)));
    while (true) {
      auto best = ranks_.end();
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const auto found = ranks_.find({symbols[i], symbols[i + 1]});
        if (found == ranks_.end()) continue;
        if (best == ranks_.end() || found->second < best->second) best = found;
      }
      if (best == ranks_.end()) break;
      std::vector<std::string> merged;
      for (size_t i = 0; i < symbols.size(); ++i) {
        const bool is_pair = i + 1 < symbols.size() && symbols[i] == best->first.first &&
                             symbols[i + 1] == best->first.second;
        merged.push_back(is_pair ? symbols[i] + symbols[i + 1] : symbols[i]);
        i += is_pair;
      }
      symbols = std::move(merged);
    }
    for (const std::string& symbol : symbols) {
      const auto found = numbers_.find(symbol);
      if (found == numbers_.end()) {
        refuse(concat("the vocabulary has no token for ", quoted_name(bytes_of_token(symbol))));
      }
      tokens.push_back(found->second);
    }
  }

  std::string path_;
  bool splits_ = true;  // into words, which merges do not cross
  std::map<std::string, int32_t> numbers_;
  std::map<std::pair<std::string, std::string>, size_t> ranks_;
  Added added_;
};

}  // namespace

std::vector<int32_t> encode(const std::string& path, const std::string& text) {
  return BytePairs(path).encode(text);
}

std::function<std::vector<int32_t>(const std::string&)> encoder(const std::string& path) {
  return [pairs = BytePairs(path)](const std::string& text) { return pairs.encode(text); };
}

std::vector<int32_t> byte_tokens(const std::string& text) {
  std::vector<int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<uint8_t>(c));
  return tokens;
}

}  // namespace ladder
