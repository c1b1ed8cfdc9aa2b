#!/usr/bin/env python3
"""Writes llama_family/: what Hugging Face's transformers says small models of the family compute.

    python3 tests/golden/make_llama_golden.py            write the folder beside this script
    python3 tests/golden/make_llama_golden.py --check    compute again, compare, write nothing

Needs transformers and torch (made with 5.24 and 2.15). Of each case there are CASE.json, the
config.json that transformers writes, and CASE.safetensors:

    tokens, targets    (batch, time), F32
    param.NAME         every parameter (F32), under its published name without `model.`
    loss, logits       mean cross entropy over all tokens; (batch * time, vocabulary)
    grad.NAME          of the loss

The numbers are those of fp64. transformers computes norms, angles, softmax, routers and the loss in
fp32, whatever the model's dtype is; while this script runs, its "float32" is float64 (fp64()), so
that all of these are fp64, too. No line of a model is changed. Mixtral's experts come without the
router's losses.
"""

import argparse
import json
import sys
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

OUTPUT = Path(__file__).resolve().parent / "llama_family"
BATCH, TIME, VOCAB = 2, 9, 23
SEED = 20261126

COMMON = {"num_hidden_layers": 2, "vocab_size": VOCAB, "max_position_embeddings": 16, "pad_token_id": None,
          "bos_token_id": None, "eos_token_id": None}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 12}
CASES = {
    # Three query heads to each key-value head, a classifier of its own, stretched frequencies.
    "llama": ("LlamaForCausalLM", {"hidden_size": 18, "intermediate_size": 14, "num_attention_heads": 3,
                                   "num_key_value_heads": 1, "rms_norm_eps": 1e-3,
                                   "rope_parameters": LLAMA3}),
    # Biases of q, k and v; the classifier has the token embedding's table.
    "qwen2": ("Qwen2ForCausalLM", {"hidden_size": 16, "intermediate_size": 10, "num_attention_heads": 4,
                                   "num_key_value_heads": 2, "tie_word_embeddings": True,
                                   "rms_norm_eps": 1e-6}),
    # Heads that do not divide the hidden size.
    "mistral": ("MistralForCausalLM", {"hidden_size": 14, "intermediate_size": 10, "num_attention_heads": 4,
                                       "num_key_value_heads": 2, "head_dim": 6, "sliding_window": None}),
    "mixtral": ("MixtralForCausalLM", {"hidden_size": 12, "intermediate_size": 7, "num_attention_heads": 2,
                                       "num_key_value_heads": 1, "num_local_experts": 3,
                                       "num_experts_per_tok": 2}),
    # Norms of q and k; heads that are wider together than the hidden size.
    "qwen3": ("Qwen3ForCausalLM", {"hidden_size": 14, "intermediate_size": 9, "num_attention_heads": 3,
                                   "num_key_value_heads": 1, "head_dim": 10, "tie_word_embeddings": True,
                                   "rms_norm_eps": 1e-3}),
}


@contextmanager
def fp64():
    """What asks for float32 gets float64."""
    kept = torch.float32, torch.float, torch.Tensor.float, torch.get_default_dtype()
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = kept[:3]
        torch.set_default_dtype(kept[3])


def randomize(model, generator):
    """Numbers of fp32. They are larger than at the start of a training, so that every part counts."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            is_norm = name.endswith("norm.weight")
            parameter.copy_((noise + (1 if is_norm else 0)).to(torch.bfloat16))


def published(tensors):
    """Returns the tensors under their names in files: transformers keeps a block's experts in one tensor."""
    result = {}
    for name, tensor in tensors.items():
        name = name.removeprefix("model.").replace(".mlp.gate.", ".block_sparse_moe.gate.")
        if ".mlp.experts." not in name:
            result[name] = tensor
            continue
        block, part = name.replace(".mlp.", ".block_sparse_moe.").rsplit(".", 1)
        for expert, matrix in enumerate(tensor):
            if part == "down_proj":
                result[f"{block}.{expert}.w2.weight"] = matrix
                continue
            for key, half in zip(("w1", "w3"), matrix.chunk(2)):
                result[f"{block}.{expert}.{key}.weight"] = half
    return result


def compute(case):
    """Returns the text of config.json and the tensors of the file."""
    import transformers

    architecture, sizes = CASES[case]
    model_class = getattr(transformers, architecture)
    config = model_class.config_class(**COMMON, **sizes)
    config.architectures = [architecture]
    generator = torch.Generator().manual_seed(SEED + list(CASES).index(case))
    with fp64():
        model = model_class._from_config(config, attn_implementation="eager",
                                        experts_implementation="eager").double()
        randomize(model, generator)
        rows = torch.randint(VOCAB, (BATCH, TIME + 1), generator=generator)
        tokens, targets = rows[:, :-1], rows[:, 1:]
        logits = model(tokens).logits.reshape(-1, VOCAB)
        loss = torch.nn.functional.cross_entropy(logits, targets.reshape(-1))
        loss.backward()
    assert logits.dtype == torch.float64 and loss.dtype == torch.float64
    named = dict(model.named_parameters())
    golden = {"tokens": tokens.to(torch.float32), "targets": targets.to(torch.float32),
              "loss": loss.detach().reshape(1), "logits": logits.detach()}
    for name, tensor in published({key: value.detach() for key, value in named.items()}).items():
        golden[f"param.{name}"] = tensor.to(torch.float32)
    for name, tensor in published({key: value.grad for key, value in named.items()}).items():
        golden[f"grad.{name}"] = tensor
    return config.to_json_string(use_diff=True), golden


def check_stored(case, golden):
    """Returns the worst relative difference of the stored file."""
    stored = load_file(OUTPUT / f"{case}.safetensors")
    assert stored.keys() == golden.keys(), f"{case}: the file has other tensors"
    return max(((stored[name] - tensor).abs().max() / tensor.abs().max().clamp(min=1e-300)).item()
               for name, tensor in golden.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the folder, write nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    OUTPUT.mkdir(exist_ok=True)
    for case in CASES:
        config, golden = compute(case)
        print(f"{case}: loss {golden['loss'].item():.15f}, {len(golden)} tensors")
        if arguments.check:
            assert json.loads((OUTPUT / f"{case}.json").read_text()) == json.loads(config)
            worst = check_stored(case, golden)
            print(f"  the stored file differs by {worst:.1e}")
            assert worst < 1e-12
            continue
        (OUTPUT / f"{case}.json").write_text(config)
        path = OUTPUT / f"{case}.safetensors"
        save_file({name: tensor.contiguous() for name, tensor in golden.items()}, str(path))
        path.chmod(0o644)


if __name__ == "__main__":
    sys.exit(main())
