#!/usr/bin/env python3
"""Writes lora/: what Hugging Face's peft says that models with low-rank adapters compute.

    python3 tests/golden/make_lora_golden.py            write the folder beside this script
    python3 tests/golden/make_lora_golden.py --check    compute again, compare, write nothing

Needs peft, transformers and torch (made with 0.21, 5.24 and 2.15). Of each case there are
CASE/config.json of the model without adapters, CASE/adapter_config.json and
CASE/adapter_model.safetensors (F32) as peft saves them, and CASE/golden.safetensors:

    tokens, targets    (batch, time), F32
    param.NAME         the model's parameters (F32), under their published names
    loss, logits       with the adapters: mean cross entropy over all tokens; (batch * time, vocabulary)
    grad.NAME          of the loss, by every number of the adapters
    merged.NAME        the weights that have an adapter, after peft has merged it

The numbers are those of fp64, as in make_llama_golden.py. Neither factor is zero.
"""

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from make_llama_golden import BATCH, TIME, VOCAB, fp64, randomize

OUTPUT = Path(__file__).resolve().parent / "lora"
SEED = 20261127

COMMON = {"vocab_size": VOCAB, "pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
CASES = {
    "gpt2": ("GPT2LMHeadModel", {"n_layer": 2, "n_head": 2, "n_embd": 12, "n_positions": 16, "resid_pdrop": 0,
                                 "embd_pdrop": 0, "attn_pdrop": 0},
             {"r": 3, "lora_alpha": 5, "target_modules": ["c_attn", "c_fc"], "fan_in_fan_out": True}),
    # Its scale is alpha / sqrt(r).
    "llama": ("LlamaForCausalLM", {"num_hidden_layers": 2, "hidden_size": 18, "intermediate_size": 14,
                                   "num_attention_heads": 3, "num_key_value_heads": 1,
                                   "max_position_embeddings": 16},
              {"r": 2, "lora_alpha": 3, "target_modules": ["q_proj", "v_proj", "down_proj"], "use_rslora": True}),
}


def published(name):
    """The name in files: without what peft and transformers put before it, and around it."""
    name = re.sub(r"^(base_model\.model\.)?(transformer\.|model\.)?", "", name)
    return name.replace(".base_layer.", ".").replace(".default.", ".")


def compute(case):
    """Returns the text of config.json, the tensors of the file, and the model to save."""
    import peft
    import transformers

    architecture, sizes, adapter = CASES[case]
    model_class = getattr(transformers, architecture)
    config = model_class.config_class(**COMMON, **sizes)
    config.architectures = [architecture]
    generator = torch.Generator().manual_seed(SEED + list(CASES).index(case))
    with fp64():
        model = model_class._from_config(config, attn_implementation="eager").double()
        randomize(model, generator)
        golden = {f"param.{published(name)}": tensor.detach().clone() for name, tensor in model.named_parameters()}
        model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **adapter)).double()
        factors = {name: tensor for name, tensor in model.named_parameters() if "lora_" in name}
        with torch.no_grad():
            for tensor in factors.values():
                noise = 0.3 * torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
                tensor.copy_(noise.to(torch.bfloat16))
        rows = torch.randint(VOCAB, (BATCH, TIME + 1), generator=generator)
        tokens, targets = rows[:, :-1], rows[:, 1:]
        logits = model(tokens).logits.reshape(-1, VOCAB)
        loss = torch.nn.functional.cross_entropy(logits, targets.reshape(-1))
        loss.backward()
    assert logits.dtype == torch.float64 and loss.dtype == torch.float64
    golden = {name: tensor.to(torch.float32) for name, tensor in golden.items()}
    golden |= {"tokens": tokens.to(torch.float32), "targets": targets.to(torch.float32),
               "loss": loss.detach().reshape(1), "logits": logits.detach()}
    golden |= {f"grad.{published(name)}": tensor.grad.clone() for name, tensor in factors.items()}
    return config.to_json_string(use_diff=True), golden, model


def merged(model):
    """The weights that have an adapter, after merging. It changes the model."""
    adapted = {name.replace(".lora_A.default", "") for name, _ in model.named_parameters() if ".lora_A." in name}
    weights = dict(model.merge_and_unload().named_parameters())
    return {f"merged.{published(name)}": weights[name.removeprefix("base_model.model.")].detach() for name in adapted}


def check_stored(case, golden):
    """Returns the worst relative difference of the stored file."""
    stored = load_file(OUTPUT / case / "golden.safetensors")
    assert stored.keys() == golden.keys(), f"{case}: the file has other tensors"
    return max(((stored[name] - tensor).abs().max() / tensor.abs().max().clamp(min=1e-300)).item()
               for name, tensor in golden.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the folder, write nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for case in CASES:
        config, golden, model = compute(case)
        folder = OUTPUT / case
        if not arguments.check:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory() as scratch:
                model.float().save_pretrained(scratch)
                model.double()
                for name in ("adapter_config.json", "adapter_model.safetensors"):
                    (folder / name).write_bytes((Path(scratch) / name).read_bytes())
        golden |= merged(model)
        print(f"{case}: loss {golden['loss'].item():.15f}, {len(golden)} tensors")
        if arguments.check:
            assert json.loads((folder / "config.json").read_text()) == json.loads(config)
            worst = check_stored(case, golden)
            print(f"  the stored file differs by {worst:.1e}")
            assert worst < 1e-12
            continue
        (folder / "config.json").write_text(config)
        path = folder / "golden.safetensors"
        save_file({name: tensor.contiguous() for name, tensor in golden.items()}, str(path))
        path.chmod(0o644)


if __name__ == "__main__":
    sys.exit(main())
