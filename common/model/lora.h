// Which linear layers of a model have low-rank adapters, and how a user names them. [Hu21 LoRA]
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/model/sublayer.h"

namespace ladder {

// Returns whether this is the name of an adapter's parameter: the layer's, then `.lora_A.weight` or
// `.lora_B.weight`, as Hugging Face's peft names them.
bool is_adapter(std::string_view parameter);

// Returns the layers of the model that a list names, separated by commas, as LoraConfig::targets
// has them. Each name is one of
//   qkv,proj,fc,mlp-proj         of a GPT-2: c_attn, attention's c_proj, c_fc, the MLP's c_proj
//   qkv,proj,gate,up,down        of the Llama family: q_proj, k_proj and v_proj, o_proj, gate_proj,
//                                up_proj, down_proj
// or a published one, with or without its sublayer: mlp.c_proj, or c_proj, which names two.
// Throws a UserError that begins with --lora-targets if a name is none of these.
std::vector<std::string> lora_targets(const ModelConfig& model, const std::string& list);

// Returns whether experts have adapters. They have those of the MLP whose place they take, each its
// own, under the expert's name.
bool adapts_experts(const ModelConfig& model);

// Throws a UserError that names the flag if a target does not exist in the model, or the rank is
// larger than a layer's inputs or outputs, or alpha is not a number above 0.
void check_lora(const ModelConfig& model);

// Gives the layers that are targets their adapters.
void add_adapters(std::vector<Sublayer>& sublayers, const LoraConfig& lora);

// Returns "rank 8, alpha 16 on attn.c_attn".
std::string lora_text(const LoraConfig& lora);

}  // namespace ladder
