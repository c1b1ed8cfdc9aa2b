#include "common/model/lora.h"

#include <algorithm>
#include <cmath>

#include "common/io/printable.h"
#include "common/io/text.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Calls body(sublayer, linear, part) for each part of a linear layer.
template <class Sublayers, class Body>
void for_parts(Sublayers& sublayers, Body body) {
  for (auto& sublayer : sublayers) {
    for (auto* linear : {&sublayer.first, &sublayer.second}) {
      for (auto& part : linear->parts) body(sublayer, *linear, part);
    }
  }
}

std::string name_of(const Sublayer& sublayer, const LinearPart& part) {
  return concat(sublayer.group, ".", part.name);
}

// Returns the name by which both families know it, if they have it.
const char* short_name(const Sublayer& sublayer, const Linear& linear, const LinearPart& part) {
  const bool is_first = &linear == &sublayer.first;
  switch (sublayer.core) {
    case Core::attention:
      return is_first ? "qkv" : "proj";
    case Core::gelu:
      return is_first ? "fc" : "mlp-proj";
    case Core::swiglu:
      return !is_first ? "down" : &part == &linear.parts[0] ? "gate" : "up";
  }
  return "";
}

// Returns what a user may write, once each.
std::string choices(const std::vector<Sublayer>& sublayers) {
  std::string text, last;
  for_parts(sublayers, [&](const Sublayer& s, const Linear& linear, const LinearPart& part) {
    const std::string name = short_name(s, linear, part);
    if (name != last) text += concat(text.empty() ? "" : ", ", name);
    last = name;
  });
  return text;
}

}  // namespace

double LoraConfig::factor() const {
  const double r = static_cast<double>(rank);
  return alpha / (scale == LoraScale::rslora ? std::sqrt(r) : r);
}

bool is_adapter(std::string_view parameter) {
  return parameter.ends_with(".lora_A.weight") || parameter.ends_with(".lora_B.weight");
}

std::vector<std::string> lora_targets(const ModelConfig& model, const std::string& list) {
  const std::vector<Sublayer> sublayers = sublayers_without_adapters(model);
  std::vector<std::string> left = items_of(list), targets;
  const std::vector<std::string> asked = left;
  for_parts(sublayers, [&](const Sublayer& s, const Linear& linear, const LinearPart& part) {
    bool is_target = false;
    for (const std::string& name : asked) {
      if (name != short_name(s, linear, part) && name != part.name && name != name_of(s, part)) {
        continue;
      }
      is_target = true;
      std::erase(left, name);
    }
    if (is_target) targets.push_back(name_of(s, part));
  });
  if (left.empty()) return targets;
  throw UserError(concat("--lora-targets ", one_line(list), ": '", one_line(left[0]),
                         "' is no linear layer of a block of this model; it has ",
                         choices(sublayers), ", or published names"));
}

bool adapts_experts(const ModelConfig& model) {
  if (!model.lora || model.experts.num_experts == 0) return false;
  const std::string mlp = concat(sublayers_without_adapters(model)[kMlp].group, ".");
  return std::ranges::any_of(model.lora->targets,
                             [&](const std::string& target) { return target.starts_with(mlp); });
}

void check_lora(const ModelConfig& model) {
  const LoraConfig& lora = *model.lora;
  if (lora.targets.empty()) throw UserError("--lora-targets: names no layer");
  if (lora.rank == 0) throw UserError("--lora-rank 0: take 1 or more");
  if (!std::isfinite(lora.alpha) || lora.alpha <= 0) {
    throw UserError(concat("--lora-alpha ", lora.alpha, ": expected a number above 0"));
  }
  std::vector<std::string> left = lora.targets;
  const std::vector<Sublayer> sublayers = sublayers_without_adapters(model);
  for_parts(sublayers, [&](const Sublayer& s, const Linear& linear, const LinearPart& part) {
    const std::string name = name_of(s, part);
    if (std::erase(left, name) == 0) return;
    const size_t most = std::min(linear.in, part.out);
    if (lora.rank <= most) return;
    throw UserError(concat("--lora-rank ", lora.rank, ": ", name, " has ", linear.in,
                           " inputs and ", part.out, " outputs; take at most ", most));
  });
  if (left.empty()) return;
  throw UserError(concat("--lora-targets: the model has no ", one_line(left[0])));
}

void add_adapters(std::vector<Sublayer>& sublayers, const LoraConfig& lora) {
  for_parts(sublayers, [&](const Sublayer& s, Linear& linear, LinearPart& part) {
    if (std::ranges::find(lora.targets, name_of(s, part)) == lora.targets.end()) return;
    part.is_adapted = true;
    linear.adapter_rank = lora.rank;
    linear.adapter_scale = lora.factor();
  });
}

std::string lora_text(const LoraConfig& lora) {
  return concat("rank ", lora.rank, ", alpha ", shortest_text(lora.alpha),
                lora.scale == LoraScale::rslora ? " (rslora)" : "", " on ",
                listed(lora.targets, ","));
}

}  // namespace ladder
