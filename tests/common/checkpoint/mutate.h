// Damages the index of a checkpoint by its fields, where changed bytes would hardly ever do more
// than break the JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "tests/common/checkpoint/indexes.h"

namespace ladder {

// The text of a whole index to begin with.
inline const std::string& whole_text() {
  static const std::string text =
      to_text(whole_index({1, 2, 2, 3, 1}, {.data_size = 2, .tensor_size = 2}));
  return text;
}

// The same with two of its tensors: one that four ranks have by columns of q, k and v, and one that
// is in one slice. All of it is checked before what is missing is named, and it costs a twentieth.
// It is made once: a fuzzer asks for it each time a text is no JSON any more.
inline const std::string& short_text() {
  static const std::string text = [] {
    const auto whole = nlohmann::json::parse(whole_text());
    nlohmann::json part = whole;
    part["tensors"] = nlohmann::json::object();
    for (const char* name : {"param.h.0.attn.c_attn.weight", "exp_avg_sq.ln_f.bias"}) {
      part["tensors"][name] = whole["tensors"][name];
    }
    return part.dump();
  }();
  return text;
}

// Every value in it, from the outside in.
inline std::vector<nlohmann::json*> values_in(nlohmann::json& json) {
  std::vector<nlohmann::json*> values = {&json};
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i]->is_structured()) {
      for (nlohmann::json& value : *values[i]) values.push_back(&value);
    }
  }
  return values;
}

// Numbers at which sums and products go wrong, and values of every kind.
inline const std::vector<nlohmann::json>& odd_values() {
  static const std::vector<nlohmann::json> values = {
      nullptr,
      true,
      0,
      1,
      2,
      -1,
      1.5,
      1e300,
      7,
      64,
      size_t{1} << 20,
      (size_t{1} << 31) - 1,
      size_t{1} << 32,
      size_t{1} << 59,
      size_t{1} << 60,
      INT64_MAX,
      INT64_MIN,
      UINT64_MAX,
      "",
      "fp64",
      "0123456789abcdef",
      "\n\t",
      nlohmann::json::array(),
      nlohmann::json::object(),
      {0, 0, 0},
      {0, UINT64_MAX},
  };
  return values;
}

// Changes, removes or doubles a value anywhere in it.
inline void mutate(nlohmann::json& json, std::mt19937_64& random) {
  const std::vector<nlohmann::json*> values = values_in(json);
  nlohmann::json& victim = *values[random() % values.size()];
  const size_t kind = random() % 8;
  if (kind == 0 && victim.is_object() && !victim.empty()) {
    victim.erase(std::next(victim.begin(), static_cast<long>(random() % victim.size())));
  } else if (kind == 1 && victim.is_array() && !victim.empty()) {
    victim.erase(random() % victim.size());
  } else if (kind == 2 && victim.is_array() && !victim.empty()) {
    victim.push_back(nlohmann::json(victim[random() % victim.size()]));
  } else if (kind == 3) {
    victim = nlohmann::json(*values[random() % values.size()]);
  } else if (kind == 4 && victim.is_number_unsigned()) {
    victim = victim.get<uint64_t>() + random() % 3 - 1;
  } else {
    victim = odd_values()[random() % odd_values().size()];
  }
}

}  // namespace ladder
