#include "common/model/family.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "common/io/text.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

template <class T>
bool read_number(T& number, const std::string& text) {
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

template <size_t ModelConfig::*member, size_t most>
constexpr auto size_choice(const char* name, const char* help, const char* expected) {
  return FamilyChoice{name, help, expected,
                      [](const ModelConfig& c) { return c.*member == 0 ? "" : concat(c.*member); },
                      [](ModelConfig& c, const std::string& value) {
                        return read_number(c.*member, value) && c.*member > 0 && c.*member <= most;
                      }};
}

template <double ModelConfig::*member>
constexpr auto number_choice(const char* name, const char* help) {
  return FamilyChoice{name, help, "a number above 0 that fp64 holds",
                      [](const ModelConfig& c) {
                        return c.*member == ModelConfig().*member ? "" : shortest_text(c.*member);
                      },
                      [](ModelConfig& c, const std::string& value) {
                        return read_number(c.*member, value) && std::isfinite(c.*member) &&
                               c.*member > 0;
                      }};
}

// The names of an enum's values, in their order. The first is the default.
constexpr std::array kNorms = {"layernorm", "rmsnorm"};
constexpr std::array kPositions = {"learned", "rotary"};
constexpr std::array kMlps = {"gelu", "swiglu"};
constexpr std::array kBiases = {"all", "qkv", "none"};
constexpr std::array kQkNorms = {"none", "rmsnorm"};

template <auto member, const auto& names>
constexpr auto named_choice(const char* name, const char* help, const char* expected) {
  return FamilyChoice{name, help, expected,
                      [](const ModelConfig& c) {
                        const size_t value = static_cast<size_t>(c.*member);
                        return std::string(value == 0 ? "" : names[value]);
                      },
                      [](ModelConfig& c, const std::string& value) {
                        const auto found = std::ranges::find(names, value);
                        if (found == names.end()) return false;
                        c.*member = static_cast<std::remove_reference_t<decltype(c.*member)>>(
                            found - names.begin());
                        return true;
                      }};
}

// "llama3:F,L,H,P" with the four numbers of Llama3Scaling in its order.
std::string scaling_text(const ModelConfig& config) {
  if (!config.rope_scaling) return "";
  const auto& [factor, low, high, positions] = *config.rope_scaling;
  return concat("llama3:", shortest_text(factor), ",", shortest_text(low), ",", shortest_text(high),
                ",", positions);
}

bool set_scaling(ModelConfig& config, const std::string& text) {
  const std::string begin = "llama3:";
  config.rope_scaling.reset();
  if (text == "none") return true;
  if (!text.starts_with(begin)) return false;
  const std::vector<std::string> numbers = items_of(text.substr(begin.size()));
  Llama3Scaling s;
  if (numbers.size() != 4 || !read_number(s.factor, numbers[0]) ||
      !read_number(s.low_freq_factor, numbers[1]) || !read_number(s.high_freq_factor, numbers[2]) ||
      !read_number(s.original_positions, numbers[3])) {
    return false;
  }
  config.rope_scaling = s;
  return std::isfinite(s.factor) && s.factor > 0 && s.low_freq_factor > 0 &&
         s.low_freq_factor < s.high_freq_factor && std::isfinite(s.high_freq_factor) &&
         s.original_positions > 0;
}

constexpr std::array kChoices = {
    size_choice<&ModelConfig::key_value_heads, 10'000>(
        "key-value-heads", "Heads of k and v, each shared by as many of q [the heads]",
        "a whole number from 1 to 10000"),
    size_choice<&ModelConfig::head_size, 100'000>(
        "head-size", "Elements of a head [hidden / heads]", "a whole number from 1 to 100000"),
    named_choice<&ModelConfig::norm, kNorms>("norm", "layernorm or rmsnorm [layernorm]",
                                             "layernorm or rmsnorm"),
    number_choice<&ModelConfig::norm_epsilon>("norm-epsilon",
                                              "What a norm adds under its root [1e-5]"),
    named_choice<&ModelConfig::positions, kPositions>(
        "positions", "A table of positions, or turns of q and k: learned or rotary [learned]",
        "learned or rotary"),
    number_choice<&ModelConfig::rope_theta>("rope-theta",
                                            "The base of rotary positions' frequencies [10000]"),
    FamilyChoice{"rope-scaling",
                 "none, or llama3:FACTOR,LOW,HIGH,POSITIONS with Llama 3's four numbers [none]",
                 "none, or llama3:FACTOR,LOW,HIGH,POSITIONS with FACTOR and LOW above 0, LOW below "
                 "HIGH, and a whole number of POSITIONS from 1",
                 scaling_text, set_scaling},
    named_choice<&ModelConfig::mlp, kMlps>("mlp", "gelu or swiglu [gelu]", "gelu or swiglu"),
    named_choice<&ModelConfig::biases, kBiases>(
        "biases", "The linear layers that have one: all, qkv or none [all]", "all, qkv or none"),
    named_choice<&ModelConfig::qk_norm, kQkNorms>(
        "qk-norm", "What norms q and k, head by head: none or rmsnorm [none]", "none or rmsnorm"),
};

}  // namespace

std::string FamilyChoice::key() const {
  std::string key = name;
  std::ranges::replace(key, '-', '_');
  return key;
}

std::span<const FamilyChoice> family_choices() { return kChoices; }

std::vector<std::pair<const FamilyChoice*, std::string>> chosen(const ModelConfig& model) {
  std::vector<std::pair<const FamilyChoice*, std::string>> found;
  for (const FamilyChoice& choice : kChoices) {
    std::string text = choice.text(model);
    if (!text.empty()) found.emplace_back(&choice, std::move(text));
  }
  return found;
}

}  // namespace ladder
