#!/usr/bin/env python3
"""Writes gpt2_experts.safetensors: what PyTorch says a small GPT-2 with experts computes.

    python3 tests/golden/make_expert_golden.py            write the file beside this script
    python3 tests/golden/make_expert_golden.py --check    compute again, compare, write nothing

The mixture of experts of lesson 15, written a second time: every token runs through every expert,
a mask picks what counts, and PyTorch takes the derivatives. fp64 on one CPU thread. Needs PyTorch
(made with 1.13) and make_golden.py. The second of two blocks has experts.

The file holds, all as F64 (also token numbers), scalars with shape [1]:

    settings.NAME      sizes of the model and the two coefficients
    tokens, targets    (batch, time)
    param.NAME         every parameter; router and experts of block i are h.i.router.weight (C, E)
                       and h.i.experts.e.*, the MLPs
    CASE.loss          the tokens' mean cross entropy, without the other two losses
    CASE.balance, CASE.z    their means
    CASE.dropped       how many choices nobody took
    CASE.grad.NAME     of loss + balance_coefficient * balance + z_coefficient * z

CASE is k1, k1_capacity, k2 or k2_capacity: how many experts a token goes to, and whether an expert
takes at most ceil(T k / E) tokens of a sequence, the first ones.
"""

import argparse
import math
import random
from pathlib import Path

import torch
import torch.nn.functional as F

import make_golden as dense

EXPERTS = 4
BALANCE, Z = 0.05, 0.02
CASES = {"k1": (1, False), "k1_capacity": (1, True), "k2": (2, False), "k2_capacity": (2, True)}
WITH_EXPERTS = 1  # the index of the block
SEED = 20261123

OUTPUT = Path(__file__).resolve().parent / "gpt2_experts.safetensors"


def parameter_shapes():
    """Published name -> shape, in the order of the forward pass."""
    shapes, mlp = {}, f"h.{WITH_EXPERTS}.mlp."
    for name, shape in dense.parameter_shapes().items():
        if not name.startswith(mlp):
            shapes[name] = shape
        if name != mlp + "c_proj.bias":
            continue
        shapes[f"h.{WITH_EXPERTS}.router.weight"] = (dense.HIDDEN, EXPERTS)
        for expert in range(EXPERTS):
            for part, its in dense.parameter_shapes().items():
                if part.startswith(mlp):
                    shapes[f"h.{WITH_EXPERTS}.experts.{expert}.{part[len(mlp):]}"] = its
    return shapes


def initial_parameters(rng):
    """0.3 * normal: larger than a model begins with, so that no two probabilities are close."""
    parameters = {}
    for name, shape in parameter_shapes().items():
        values = [0.3 * rng.gauss(0.0, 1.0) for _ in range(math.prod(shape))]
        parameters[name] = torch.tensor(values, dtype=torch.float64).reshape(shape)
    return parameters


def mlp(x, p, name):
    wide = dense.linear(x, p, f"{name}.c_fc")
    return dense.linear(F.gelu(wide, approximate="tanh"), p, f"{name}.c_proj")


def experts(x, p, name, k, has_capacity):
    """Returns what the experts add to x (batch, time, hidden), and the router's losses."""
    time = x.shape[1]
    logits = x @ p[f"{name}.router.weight"]
    probabilities = logits.softmax(-1)
    top, chosen = probabilities.topk(k, dim=-1)
    weights = top if k == 1 else top / top.sum(-1, keepdim=True)
    mask = F.one_hot(chosen, EXPERTS).double()  # (batch, time, k, E)
    fractions = mask.sum((1, 2)) / (time * k)
    capacity = math.ceil(time * k / EXPERTS) if has_capacity else time
    # How many tokens of the sequence chose the expert before this one.
    before = mask.sum(2).cumsum(1) - mask.sum(2)
    kept = mask * (before < capacity)[:, :, None, :]
    share = (weights[..., None] * kept).sum(2)  # (batch, time, E)
    outputs = torch.stack([mlp(x, p, f"{name}.experts.{e}") for e in range(EXPERTS)], -1)
    balance = EXPERTS * (fractions * probabilities.mean(1)).sum(-1).mean()
    z = (logits.logsumexp(-1) ** 2).mean()
    return (outputs * share[:, :, None, :]).sum(-1), balance, z, (mask - kept).sum()


def compute(p, tokens, targets, k, has_capacity):
    """Returns the tokens' loss, the router's two losses, and the number of dropped choices."""
    x = p["wte.weight"][tokens] + p["wpe.weight"][: tokens.shape[1]]
    for layer in range(dense.LAYERS):
        block = f"h.{layer}"
        x = x + dense.attention(dense.layernorm(x, p, f"{block}.ln_1"), p, f"{block}.attn")
        normed = dense.layernorm(x, p, f"{block}.ln_2")
        if layer != WITH_EXPERTS:
            x = x + mlp(normed, p, f"{block}.mlp")
            continue
        added, balance, z, dropped = experts(normed, p, block, k, has_capacity)
        x = x + added
    logits = dense.layernorm(x, p, "ln_f") @ p["wte.weight"].T
    loss = F.cross_entropy(logits.reshape(-1, dense.VOCAB), targets.reshape(-1))
    return loss, balance, z, dropped


def make_golden():
    """All tensors of the file, in its order."""
    settings = {
        "layers": dense.LAYERS,
        "heads": dense.HEADS,
        "hidden": dense.HIDDEN,
        "vocab": dense.VOCAB,
        "sequence_length": dense.POSITIONS,
        "experts": EXPERTS,
        "balance_coefficient": BALANCE,
        "z_coefficient": Z,
    }
    golden = {f"settings.{k}": torch.tensor([v], dtype=torch.float64) for k, v in settings.items()}
    rng = random.Random(SEED)
    p = initial_parameters(rng)
    tokens, targets = dense.make_batches(rng)[0]
    golden.update({"tokens": tokens.double(), "targets": targets.double()})
    golden.update({f"param.{name}": tensor.clone() for name, tensor in p.items()})
    for tensor in p.values():
        tensor.requires_grad_(True)
    for case, (k, has_capacity) in CASES.items():
        loss, balance, z, dropped = compute(p, tokens, targets, k, has_capacity)
        assert (dropped > 0) == has_capacity, f"{case}: {dropped} choices are dropped"
        total = loss + BALANCE * balance + Z * z
        for name, value in (("loss", loss), ("balance", balance), ("z", z), ("dropped", dropped)):
            golden[f"{case}.{name}"] = value.detach().double().reshape(1)
        for name, grad in zip(p, torch.autograd.grad(total, list(p.values()))):
            golden[f"{case}.grad.{name}"] = grad
    return golden


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="compare with the file, write nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    golden = make_golden()
    for case in CASES:
        values = "  ".join(f"{name} {golden[f'{case}.{name}'].item():.12f}"
                           for name in ("loss", "balance", "z"))
        print(f"{case}: {values}  dropped {golden[f'{case}.dropped'].item():.0f}")
    if arguments.check:
        print(f"the stored file: worst relative error {dense.check_stored(golden, OUTPUT):.1e}")
    else:
        OUTPUT.write_bytes(dense.serialize(golden))
        print(f"{OUTPUT}: {len(golden)} tensors")


if __name__ == "__main__":
    main()
