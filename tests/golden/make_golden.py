#!/usr/bin/env python3
"""Writes gpt2_small.safetensors: what PyTorch says a small GPT-2 does in three training steps.

    python3 tests/golden/make_golden.py            write the file beside this script
    python3 tests/golden/make_golden.py --check    compute and test the same numbers, write nothing

The model is written here a second time, in PyTorch's own operators and with PyTorch's own
automatic derivatives and AdamW, so that it shares nothing with the code it judges. Everything is
fp64 on one CPU thread. Needs PyTorch (made with 2.15) and no other package. The inputs (weights,
tokens) come from Python's generator, so they do not depend on the PyTorch version. Two runs on one
machine give the same bytes; another PyTorch or CPU may round the last bits differently.

The file holds, all as F64 (also token numbers), scalars with shape [1]:

    settings.NAME         sizes of the model, AdamW's constants, clip_norm
    init.NAME             every parameter before the first step; NAME is the published name,
                          weights are stored (in, out)
    stepK.tokens          (batch, time), K = 1, 2, 3; a new batch each step
    stepK.targets         (batch, time), the token that follows
    stepK.learning_rate   [1]
    stepK.loss            [1], mean cross entropy over all tokens, before the update
    stepK.grad_norm       [1], over all parameters, before clipping
    stepK.grad.NAME       before clipping
    stepK.param.NAME, stepK.exp_avg.NAME, stepK.exp_avg_sq.NAME    after the update

The rules: gradients are multiplied by clip_norm / grad_norm where grad_norm > clip_norm (no epsilon
in the quotient); weight decay acts on parameters with two dimensions only, p *= 1 - lr * decay
before the update; the denominator is sqrt(v) / sqrt(1 - beta2^t) + epsilon.
Sequences are shorter than the position table, so its last rows have no gradient. Biases and
layernorm parameters start off their usual 0 and 1, so that no gradient is trivial.
"""

import argparse
import hashlib
import json
import math
import random
import struct
from pathlib import Path

import torch
import torch.nn.functional as F

LAYERS, HEADS, HIDDEN, VOCAB, POSITIONS = 2, 3, 24, 61, 16
BATCH, TIME = 5, 13
LAYERNORM_EPSILON = 1e-5
BETA1, BETA2, ADAM_EPSILON, WEIGHT_DECAY = 0.9, 0.95, 1e-8, 0.1
CLIP_NORM = 1.0
LEARNING_RATES = [1e-3, 2e-3, 1.5e-3]
SEED = 20240607

OUTPUT = Path(__file__).resolve().parent / "gpt2_small.safetensors"


def parameter_shapes():
    """Published name -> shape, in the order of the forward pass."""
    shapes = {"wte.weight": (VOCAB, HIDDEN), "wpe.weight": (POSITIONS, HIDDEN)}
    for layer in range(LAYERS):
        block = {
            "ln_1.weight": (HIDDEN,),
            "ln_1.bias": (HIDDEN,),
            "attn.c_attn.weight": (HIDDEN, 3 * HIDDEN),
            "attn.c_attn.bias": (3 * HIDDEN,),
            "attn.c_proj.weight": (HIDDEN, HIDDEN),
            "attn.c_proj.bias": (HIDDEN,),
            "ln_2.weight": (HIDDEN,),
            "ln_2.bias": (HIDDEN,),
            "mlp.c_fc.weight": (HIDDEN, 4 * HIDDEN),
            "mlp.c_fc.bias": (4 * HIDDEN,),
            "mlp.c_proj.weight": (4 * HIDDEN, HIDDEN),
            "mlp.c_proj.bias": (HIDDEN,),
        }
        shapes.update({f"h.{layer}.{name}": shape for name, shape in block.items()})
    shapes.update({"ln_f.weight": (HIDDEN,), "ln_f.bias": (HIDDEN,)})
    return shapes


def initial_parameters(rng):
    """0.02 * normal for all, and 1 + that for the scale of a layernorm."""
    parameters = {}
    for name, shape in parameter_shapes().items():
        centre = 1.0 if name.split(".")[-2].startswith("ln_") and name.endswith("weight") else 0.0
        values = [centre + 0.02 * rng.gauss(0.0, 1.0) for _ in range(math.prod(shape))]
        parameters[name] = torch.tensor(values, dtype=torch.float64).reshape(shape)
    return parameters


def make_batches(rng):
    """For each step (tokens, targets), both (batch, time): rows of time + 1 random tokens."""
    batches = []
    for _ in LEARNING_RATES:
        rows = torch.tensor([[rng.randrange(VOCAB) for _ in range(TIME + 1)] for _ in range(BATCH)])
        batches.append((rows[:, :-1], rows[:, 1:]))
    return batches


def layernorm(x, p, name):
    return F.layer_norm(x, (HIDDEN,), p[f"{name}.weight"], p[f"{name}.bias"], LAYERNORM_EPSILON)


def linear(x, p, name):
    return x @ p[f"{name}.weight"] + p[f"{name}.bias"]


def attention(x, p, name):
    """Causal self-attention; x and the result are (batch, time, hidden)."""
    batch, time, _ = x.shape
    qkv = linear(x, p, f"{name}.c_attn").reshape(batch, time, 3, HEADS, HIDDEN // HEADS)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (batch, heads, time, head size)
    scores = q @ k.transpose(-2, -1) / math.sqrt(HIDDEN // HEADS)
    future = torch.ones(time, time, dtype=torch.bool).triu(1)
    probabilities = scores.masked_fill(future, -math.inf).softmax(-1)
    joined = (probabilities @ v).transpose(1, 2).reshape(batch, time, HIDDEN)
    return linear(joined, p, f"{name}.c_proj")


def compute_loss(p, tokens, targets):
    x = p["wte.weight"][tokens] + p["wpe.weight"][: tokens.shape[1]]
    for layer in range(LAYERS):
        block = f"h.{layer}"
        x = x + attention(layernorm(x, p, f"{block}.ln_1"), p, f"{block}.attn")
        wide = linear(layernorm(x, p, f"{block}.ln_2"), p, f"{block}.mlp.c_fc")
        x = x + linear(F.gelu(wide, approximate="tanh"), p, f"{block}.mlp.c_proj")
    logits = layernorm(x, p, "ln_f") @ p["wte.weight"].T
    return F.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1))


def make_optimizer(p):
    groups = [
        {"params": [t for t in p.values() if t.dim() == 2], "weight_decay": WEIGHT_DECAY},
        {"params": [t for t in p.values() if t.dim() != 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, betas=(BETA1, BETA2), eps=ADAM_EPSILON, foreach=False)


def training_step(p, optimizer, tokens, targets, learning_rate):
    """One step; p is updated. Returns the tensors to store, named as in the file without stepK."""
    loss = compute_loss(p, tokens, targets)
    grads = dict(zip(p, torch.autograd.grad(loss, list(p.values()))))
    grad_norm = torch.cat([g.reshape(-1) for g in grads.values()]).norm()
    factor = CLIP_NORM / grad_norm if grad_norm > CLIP_NORM else 1.0
    for name, tensor in p.items():
        tensor.grad = grads[name] * factor
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.step()

    out = {"tokens": tokens.double(), "targets": targets.double()}
    out["learning_rate"] = torch.tensor([learning_rate], dtype=torch.float64)
    out["loss"] = loss.detach().reshape(1)
    out["grad_norm"] = grad_norm.reshape(1)
    out.update({f"grad.{name}": grad for name, grad in grads.items()})
    out.update({f"param.{name}": tensor.detach().clone() for name, tensor in p.items()})
    for moment in ("exp_avg", "exp_avg_sq"):
        for name, tensor in p.items():
            out[f"{moment}.{name}"] = optimizer.state[tensor][moment].clone()
    return out


def make_golden():
    """All tensors of the file, in its order."""
    settings = {
        "layers": LAYERS,
        "heads": HEADS,
        "hidden": HIDDEN,
        "vocab": VOCAB,
        "sequence_length": POSITIONS,
        "layernorm_epsilon": LAYERNORM_EPSILON,
        "beta1": BETA1,
        "beta2": BETA2,
        "epsilon": ADAM_EPSILON,
        "weight_decay": WEIGHT_DECAY,
        "clip_norm": CLIP_NORM,
    }
    golden = {f"settings.{k}": torch.tensor([v], dtype=torch.float64) for k, v in settings.items()}
    rng = random.Random(SEED)
    p = initial_parameters(rng)
    golden.update({f"init.{name}": tensor.clone() for name, tensor in p.items()})
    for tensor in p.values():
        tensor.requires_grad_(True)
    optimizer = make_optimizer(p)
    for step, (batch, rate) in enumerate(zip(make_batches(rng), LEARNING_RATES), start=1):
        for name, tensor in training_step(p, optimizer, *batch, rate).items():
            golden[f"step{step}.{name}"] = tensor

    norms = [golden[f"step{step}.grad_norm"].item() for step in range(1, len(LEARNING_RATES) + 1)]
    assert min(norms) < CLIP_NORM < max(norms), f"clipping must be active and inactive: {norms}"
    return golden


def serialize(tensors):
    """The safetensors format: 8 bytes of header length, a JSON header padded to 8, the data."""
    header, chunks, offset = {}, [], 0
    for name, tensor in tensors.items():
        values = tensor.reshape(-1).tolist()
        data = struct.pack(f"<{len(values)}d", *values)
        span = [offset, offset + len(data)]
        header[name] = {"dtype": "F64", "shape": list(tensor.shape), "data_offsets": span}
        chunks.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(chunks)


def deserialize(content):
    """The inverse of serialize()."""
    (length,) = struct.unpack_from("<Q", content)
    tensors = {}
    for name, entry in json.loads(content[8 : 8 + length]).items():
        count = math.prod(entry["shape"])
        values = struct.unpack_from(f"<{count}d", content, 8 + length + entry["data_offsets"][0])
        tensors[name] = torch.tensor(values, dtype=torch.float64).reshape(entry["shape"])
    return tensors


def step_parameters(golden, step):
    """The parameters that step's forward pass used."""
    prefix = "init." if step == 1 else f"step{step - 1}.param."
    return {name: golden[prefix + name].clone() for name in parameter_shapes()}


def check_gradients(golden, samples=6):
    """Gradients against finite differences of the loss; returns the worst relative error.

    Fourth order, h = 1e-3. The rule's error is h^4 f''''' / 30: the residual stream is about 0.03
    wide before the first layernorm, so derivatives grow by 1/0.03 each and f''''' reaches 8e3; that
    gives 3e-10 where the gradient's largest element is 0.09. The loss, about 4, is rounded by some
    2^-53 * 4, which the rule turns into 1.5 * 4e-16 / h = 7e-13 where that element is at least
    4e-4. Both are below 3e-9 relative; the limit is 1e-8.
    """
    rng, h, worst = random.Random(1), 1e-3, 0.0
    for step in range(1, len(LEARNING_RATES) + 1):
        p = step_parameters(golden, step)
        tokens, targets = (golden[f"step{step}.{kind}"].long() for kind in ("tokens", "targets"))
        for name, tensor in p.items():
            grad, flat = golden[f"step{step}.grad.{name}"].reshape(-1), tensor.view(-1)
            for index in (rng.randrange(flat.numel()) for _ in range(samples)):
                kept, losses = flat[index].item(), {}
                for k in (-2, -1, 1, 2):
                    flat[index] = kept + k * h
                    losses[k] = compute_loss(p, tokens, targets).item()
                flat[index] = kept
                estimate = (8 * (losses[1] - losses[-1]) - (losses[2] - losses[-2])) / (12 * h)
                error = abs(estimate - grad[index].item()) / grad.abs().max().item()
                assert error < 1e-8, f"step {step} {name}[{index}]: {estimate} vs {grad[index]}"
                worst = max(worst, error)
    return worst


def check_adamw(golden):
    """The update written out by hand from the stored gradients; returns the worst relative error.

    Both sides do about ten roundings of 1.1e-16 a step, divided by the tensor's largest element.
    """
    worst = 0.0
    for name in parameter_shapes():
        p = golden[f"init.{name}"].clone()
        m, v = torch.zeros_like(p), torch.zeros_like(p)
        decay = WEIGHT_DECAY if p.dim() == 2 else 0.0
        for t, rate in enumerate(LEARNING_RATES, start=1):
            norm = golden[f"step{t}.grad_norm"]
            grad = golden[f"step{t}.grad.{name}"] * (CLIP_NORM / norm if norm > CLIP_NORM else 1.0)
            m = BETA1 * m + (1 - BETA1) * grad
            v = BETA2 * v + (1 - BETA2) * grad * grad
            denominator = v.sqrt() / math.sqrt(1 - BETA2**t) + ADAM_EPSILON
            p = p * (1 - rate * decay) - rate / (1 - BETA1**t) * m / denominator
            for kind, mine in (("param", p), ("exp_avg", m), ("exp_avg_sq", v)):
                stored = golden[f"step{t}.{kind}.{name}"]
                error = ((stored - mine).abs().max() / stored.abs().max()).item()
                assert error < 1e-14, f"step {t} {kind}.{name}: relative error {error}"
                worst = max(worst, error)
    return worst


def check_structure(golden):
    """What must hold whatever the numbers are: every tensor finite, each path exercised."""
    for name, tensor in golden.items():
        assert torch.isfinite(tensor).all(), f"{name} is not finite"
    for step in range(1, len(LEARNING_RATES) + 1):
        for name in parameter_shapes():
            grad = golden[f"step{step}.grad.{name}"]
            if name == "wpe.weight":
                assert (grad[TIME:] == 0).all(), "positions that no token used have a gradient"
                grad = grad[:TIME]
            if name.endswith("c_attn.bias"):  # softmax does not see a shift of the keys
                query, key, value = grad.split(HIDDEN)
                assert key.abs().max() < 1e-15 * grad.abs().max(), "the key bias has a gradient"
                grad = torch.cat([query, value])
            assert (grad != 0).all(), f"step {step} {name}: a gradient is exactly zero"


def check_stored(golden, path):
    """The file in the tree against the numbers just computed; returns the worst relative error.

    Another PyTorch or CPU rounds otherwise: sums of up to a few thousand terms, 2^-53 each, so
    1e-12 of the tensor's largest element.
    """
    stored, worst = deserialize(path.read_bytes()), 0.0
    assert stored.keys() == golden.keys(), "the file holds other tensors"
    for name, tensor in golden.items():
        assert stored[name].shape == tensor.shape, f"{name} has another shape in the file"
        scale = tensor.abs().max().clamp(min=1e-300)  # of zeros, which must be the same
        error = ((stored[name] - tensor).abs().max() / scale).item()
        assert error < 1e-12, f"{name}: the file is off by {error} relative"
        worst = max(worst, error)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="test the numbers, write nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    golden = make_golden()
    content = serialize(golden)
    for step in range(1, len(LEARNING_RATES) + 1):
        loss, norm = (golden[f"step{step}.{kind}"].item() for kind in ("loss", "grad_norm"))
        print(f"step {step}: loss {loss:.15f}  grad_norm {norm:.15f}  clipped {norm > CLIP_NORM}")
    if arguments.check:
        check_structure(golden)
        print(f"finite differences: worst relative error {check_gradients(golden):.1e}")
        print(f"AdamW by hand:      worst relative error {check_adamw(golden):.1e}")
        print(f"the stored file:    worst relative error {check_stored(golden, OUTPUT):.1e}")
    else:
        OUTPUT.write_bytes(content)
        print(f"{OUTPUT}: {len(golden)} tensors, {len(content)} bytes")
    print(f"sha256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
