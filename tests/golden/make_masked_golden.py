#!/usr/bin/env python3
"""Writes gpt2_masked.safetensors: what PyTorch says of a small encoder's loss and gradients.

    python3 tests/golden/make_masked_golden.py            write the file beside this script
    python3 tests/golden/make_masked_golden.py --check    compute again, compare, write nothing

The model is make_golden.py's, with its parameters of the start, but every token sees its whole
sequence, and the loss is the mean over some tokens: those that were hidden or changed in the input,
or chosen and left as they are. fp64 on one CPU thread. Needs PyTorch (made with 2.15) and
make_golden.py.

The file holds, all as F64 (also token numbers), scalars with shape [1]:

    tokens      (batch, time), some of them the mask, the vocabulary's last token
    targets     (batch, time): what was there, or -1 where nothing is learned
    loss        [1], the mean cross entropy over all targets but -1
    grad.NAME   of the parameters init.NAME of gpt2_small.safetensors
"""

import argparse
import random
from pathlib import Path

import make_golden as dense
import torch
import torch.nn.functional as F

SEED = 20271127
IGNORED = -1
MASK = dense.VOCAB - 1

OUTPUT = Path(__file__).resolve().parent / "gpt2_masked.safetensors"


def attention(x, p, name):
    """Self-attention without a mask; x and the result are (batch, time, hidden)."""
    batch, time, _ = x.shape
    heads, size = dense.HEADS, dense.HIDDEN // dense.HEADS
    qkv = dense.linear(x, p, f"{name}.c_attn").reshape(batch, time, 3, heads, size)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (batch, heads, time, head size)
    joined = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
    return dense.linear(joined.reshape(batch, time, dense.HIDDEN), p, f"{name}.c_proj")


def compute_loss(p, tokens, targets):
    x = p["wte.weight"][tokens] + p["wpe.weight"][: tokens.shape[1]]
    for layer in range(dense.LAYERS):
        block = f"h.{layer}"
        x = x + attention(dense.layernorm(x, p, f"{block}.ln_1"), p, f"{block}.attn")
        inner = dense.linear(dense.layernorm(x, p, f"{block}.ln_2"), p, f"{block}.mlp.c_fc")
        x = x + dense.linear(F.gelu(inner, approximate="tanh"), p, f"{block}.mlp.c_proj")
    logits = dense.layernorm(x, p, "ln_f") @ p["wte.weight"].T
    return F.cross_entropy(
        logits.reshape(-1, dense.VOCAB), targets.reshape(-1), ignore_index=IGNORED
    )


def make_batch(rng):
    """(tokens, targets), both (batch, time). Unlike in training a third of the tokens is chosen."""
    tokens, targets = [], []
    for _ in range(dense.BATCH):
        row = [rng.randrange(MASK) for _ in range(dense.TIME)]
        chosen = [rng.random() < 1 / 3 for _ in row]
        targets.append([token if is_chosen else IGNORED for token, is_chosen in zip(row, chosen)])
        change = [rng.choice([MASK, MASK, rng.randrange(MASK), token]) for token in row]
        tokens.append([new if is_chosen else old for old, new, is_chosen in zip(row, change, chosen)])
    return torch.tensor(tokens), torch.tensor(targets)


def make_golden():
    """All tensors of the file, in its order."""
    p = dense.initial_parameters(random.Random(dense.SEED))
    for tensor in p.values():
        tensor.requires_grad_(True)
    tokens, targets = make_batch(random.Random(SEED))
    assert (tokens == MASK).any() and (targets == IGNORED).any()
    loss = compute_loss(p, tokens, targets)
    gradients = torch.autograd.grad(loss, list(p.values()))
    golden = {"tokens": tokens.double(), "targets": targets.double()}
    golden["loss"] = loss.detach().reshape(1)
    golden.update({f"grad.{name}": gradient for name, gradient in zip(p, gradients)})
    return golden


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="test the numbers, write nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    golden = make_golden()
    counted = int((golden["targets"] != IGNORED).sum())
    print(f"loss {golden['loss'].item():.15f} of {counted} tokens")
    if arguments.check:
        print(f"the file: worst relative error {dense.check_stored(golden, OUTPUT):.1e}")
    else:
        OUTPUT.write_bytes(dense.serialize(golden))


if __name__ == "__main__":
    main()
