#!/usr/bin/env python3
"""Times one training step of GPT-2, or of Llama, in PyTorch, to compare the lessons' step with.

    tools/measure/pytorch_gpt2.py --preset small --threads 2
    tools/measure/pytorch_gpt2.py --preset gpt2-t256 --threads 1 --json
    tools/measure/pytorch_gpt2.py --preset smollm2-t256 --threads 2
    tools/measure/pytorch_gpt2.py --preset gpt2-t1024 --device cuda --tf32
    tools/measure/pytorch_gpt2.py --preset gpt2-t1024 --device cuda --batch 16 --bf16 --compile

A step is what lesson 01 does: forward, mean cross entropy, backward, AdamW, with a tied head, fp32.
--bf16 runs forward and backward under autocast; parameters and AdamW stay fp32. --tf32 lets fp32
products on a GPU use its tensor cores. --compile fuses what torch.compile can. One line is printed: median, least and greatest ms a step,
and tokens a second at the median.

Needs PyTorch; what a version lacks (scaled_dot_product_attention before 2.0, fused AdamW on the CPU
before 2.4) is replaced by plain operators or the foreach AdamW, and the line says which ran.

Settings that matter, and that the script makes for itself by starting once more under them
(--as-is keeps the caller's environment):

    MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_, MALLOC_TOP_PAD_
        glibc hands big blocks back to the system after every use; each step then faults all its
        pages in again. These keep them.
    GLIBC_TUNABLES=glibc.malloc.hugetlb=1
        asks for transparent huge pages (glibc 2.35 and later), which means fewer faults and misses.
    OMP_NUM_THREADS
        set to --threads. PyTorch's own thread pool is set likewise.
    OPENBLAS_CORETYPE, OPENBLAS_L2_SIZE
        removed. Some systems export a type older than their CPU, which halves the speed of a
        PyTorch built on OpenBLAS, as Debian's is. That one also wants OpenBLAS' OpenMP variant:
        LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/openblas-openmp (package libopenblas0-openmp),
        because two pools of spinning threads fight for the cores; the script does not choose it.

Not set: OMP_WAIT_POLICY. Waiting threads spin, which is faster on an idle machine (by a sixth for
the small preset on two cores) and several times slower on one that others use as well; there
OMP_WAIT_POLICY=PASSIVE in the caller's environment helps, and so does --threads below the cores.
"""

import argparse
import json
import math
import os
import statistics
import sys
import time

PRESETS = {
    "gpt2-t1024": dict(layers=12, heads=12, hidden=768, vocab=50257, batch=4, sequence_length=1024),
    "gpt2-t256": dict(layers=12, heads=12, hidden=768, vocab=50257, batch=4, sequence_length=256),
    "gpt2-t64": dict(layers=12, heads=12, hidden=768, vocab=50257, batch=4, sequence_length=64),
    "smollm2-t1024": dict(layers=30, heads=9, hidden=576, vocab=49152, batch=4, sequence_length=1024),
    "smollm2-t256": dict(layers=30, heads=9, hidden=576, vocab=49152, batch=4, sequence_length=256),
    "small": dict(layers=4, heads=4, hidden=128, vocab=256, batch=8, sequence_length=64),
}
# What makes a preset a Llama: heads of k and v, the MLP's inner layer, the base of frequencies.
SMOLLM2 = dict(key_value_heads=3, ffn=1536, theta=1e5)
LLAMAS = {"smollm2-t1024": SMOLLM2, "smollm2-t256": SMOLLM2}
GPT2_POSITIONS = 1024
WARMUP_STEPS = 2
TUNED_MARK = "PYTORCH_GPT2_TUNED"


def positive(text):
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return value


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--preset", choices=PRESETS, default="small", help="default: small")
    for name in PRESETS["small"]:
        flag = "--" + name.replace("_", "-")
        parser.add_argument(flag, type=positive, help="default: the preset's")
    parser.add_argument("--positions", type=positive, help="rows of the position table; default: "
                        f"{GPT2_POSITIONS} for gpt2-*, else the sequence length")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    parser.add_argument("--tf32", action="store_true", help="TF32 products on a GPU")
    parser.add_argument("--threads", type=positive, default=1, help="default: 1")
    parser.add_argument("--steps", type=positive, default=10, help="timed steps; default: 10")
    parser.add_argument("--bf16", action="store_true", help="autocast to bf16")
    parser.add_argument("--compile", action="store_true", help="torch.compile the loss")
    parser.add_argument("--plain-attention", action="store_true", help="no fused attention")
    parser.add_argument("--plain-adamw", action="store_true", help="no fused AdamW")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.add_argument("--as-is", action="store_true", help="keep the environment as it is")
    arguments = parser.parse_args()

    for name, value in PRESETS[arguments.preset].items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    if arguments.positions is None:
        is_gpt2 = arguments.preset.startswith("gpt2")
        arguments.positions = GPT2_POSITIONS if is_gpt2 else arguments.sequence_length
    if arguments.hidden % arguments.heads:
        parser.error(f"--heads {arguments.heads} does not divide --hidden {arguments.hidden}")
    if arguments.sequence_length > arguments.positions:
        parser.error(
            f"--sequence-length {arguments.sequence_length} is above --positions "
            f"{arguments.positions}"
        )
    return arguments


def restart_tuned(threads):
    """Replaces this process by itself under the settings above; malloc reads them only at start."""
    environment = dict(os.environ)
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        if environment.pop(name, None) is not None:
            print(f"pytorch_gpt2: {name} ignored", file=sys.stderr)
    environment.update(
        MALLOC_MMAP_THRESHOLD_=str(8 << 30),
        MALLOC_TRIM_THRESHOLD_=str(16 << 30),
        MALLOC_TOP_PAD_=str(256 << 20),
        GLIBC_TUNABLES="glibc.malloc.hugetlb=1",
        OMP_NUM_THREADS=str(threads),
    )
    environment[TUNED_MARK] = "1"
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def make_parameters(torch, shape):
    """Name -> parameter; weights (out, in), as torch's linear wants them. 0.02 * normal."""
    hidden = shape.hidden
    sizes = {"wte": (shape.vocab, hidden), "wpe": (shape.positions, hidden)}
    for layer in range(shape.layers):
        for name, outputs, inputs in (
            ("qkv", 3 * hidden, hidden),
            ("projection", hidden, hidden),
            ("up", 4 * hidden, hidden),
            ("down", hidden, 4 * hidden),
        ):
            sizes[f"{layer}.{name}.weight"] = (outputs, inputs)
            sizes[f"{layer}.{name}.bias"] = (outputs,)
    norms = [f"{layer}.{name}" for layer in range(shape.layers) for name in ("ln_1", "ln_2")]
    for name in [*norms, "ln_f"]:
        sizes[f"{name}.weight"] = sizes[f"{name}.bias"] = (hidden,)

    parameters = {}
    for name, size in sizes.items():
        is_norm = name.split(".")[-2:][0].startswith("ln_")
        if len(size) == 2:
            value = torch.randn(size) * 0.02
        else:
            value = torch.ones(size) if is_norm and name.endswith("weight") else torch.zeros(size)
        parameters[name] = value.to(shape.device).requires_grad_(True)
    return parameters


class Model:
    """GPT-2 over a dictionary of parameters."""

    def __init__(self, torch, shape):
        self.torch, self.functional, self.shape = torch, torch.nn.functional, shape
        self.parameters = make_parameters(torch, shape)
        has_fused = hasattr(self.functional, "scaled_dot_product_attention")
        self.fused_attention = has_fused and not shape.plain_attention
        time = shape.sequence_length
        self.future = torch.ones(time, time, dtype=torch.bool, device=shape.device).triu(1)

    def linear(self, x, name):
        p = self.parameters
        return self.functional.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])

    def layernorm(self, x, name):
        p = self.parameters
        return self.functional.layer_norm(x, x.shape[-1:], p[f"{name}.weight"], p[f"{name}.bias"])

    def attention(self, x, layer):
        batch, time, hidden = x.shape
        head_size = hidden // self.shape.heads
        heads = (batch, time, self.shape.heads, head_size)
        parts = self.linear(x, f"{layer}.qkv").split(hidden, dim=2)
        q, k, v = (part.view(heads).transpose(1, 2) for part in parts)
        if self.fused_attention:
            y = self.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(head_size))
            y = scores.masked_fill(self.future, -math.inf).softmax(-1) @ v
        y = y.transpose(1, 2).reshape(batch, time, hidden)
        return self.linear(y, f"{layer}.projection")

    def loss(self, tokens, targets):
        p = self.parameters
        x = self.functional.embedding(tokens, p["wte"]) + p["wpe"][: tokens.shape[1]]
        for layer in range(self.shape.layers):
            x = x + self.attention(self.layernorm(x, f"{layer}.ln_1"), layer)
            wide = self.linear(self.layernorm(x, f"{layer}.ln_2"), f"{layer}.up")
            x = x + self.linear(self.functional.gelu(wide, approximate="tanh"), f"{layer}.down")
        logits = self.functional.linear(self.layernorm(x, "ln_f"), p["wte"]).float()
        return self.functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


class Llama(Model):
    """A Llama with a tied head: RMSNorm, rotary positions, grouped heads, SwiGLU, no biases."""

    def __init__(self, torch, shape):
        llama = LLAMAS[shape.preset]
        self.torch, self.functional, self.shape = torch, torch.nn.functional, shape
        self.key_value_heads = llama["key_value_heads"]
        self.fused_attention = not shape.plain_attention
        size, time = shape.hidden // shape.heads, shape.sequence_length
        wide, hidden = llama["ffn"], shape.hidden
        sizes = {"wte": (shape.vocab, hidden), "ln_f": (hidden,)}
        for layer in range(shape.layers):
            heads = shape.heads + 2 * self.key_value_heads
            sizes |= {f"{layer}.ln_1": (hidden,), f"{layer}.qkv": (heads * size, hidden),
                      f"{layer}.projection": (hidden, hidden), f"{layer}.ln_2": (hidden,),
                      f"{layer}.up": (2 * wide, hidden), f"{layer}.down": (hidden, wide)}
        self.parameters = {}
        for name, extents in sizes.items():
            value = torch.randn(extents) * 0.02 if len(extents) == 2 else torch.ones(extents)
            self.parameters[name] = value.to(shape.device).requires_grad_(True)
        frequencies = llama["theta"] ** (-torch.arange(0, size, 2) / size)
        angles = torch.outer(torch.arange(time), frequencies).repeat(1, 2).to(shape.device)
        self.cos, self.sin = angles.cos(), angles.sin()
        self.future = torch.ones(time, time, dtype=torch.bool, device=shape.device).triu(1)

    def norm(self, x, name):
        return self.functional.rms_norm(x, x.shape[-1:], self.parameters[name], 1e-5)

    def turn(self, x):
        first, second = x.chunk(2, dim=-1)
        return x * self.cos + self.torch.cat((-second, first), dim=-1) * self.sin

    def attention(self, x, layer):
        batch, time, hidden = x.shape
        q_heads, kv_heads = self.shape.heads, self.key_value_heads
        qkv = self.functional.linear(x, self.parameters[f"{layer}.qkv"])
        qkv = qkv.view(batch, time, q_heads + 2 * kv_heads, -1).transpose(1, 2)
        q, k, v = qkv.split((q_heads, kv_heads, kv_heads), dim=1)
        q, k = self.turn(q), self.turn(k)
        if self.fused_attention:
            y = self.functional.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                             enable_gqa=True)
        else:
            k, v = (part.repeat_interleave(q_heads // kv_heads, dim=1) for part in (k, v))
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            y = scores.masked_fill(self.future, -math.inf).softmax(-1) @ v
        y = y.transpose(1, 2).reshape(batch, time, hidden)
        return self.functional.linear(y, self.parameters[f"{layer}.projection"])

    def loss(self, tokens, targets):
        p, linear = self.parameters, self.functional.linear
        x = self.functional.embedding(tokens, p["wte"])
        for layer in range(self.shape.layers):
            x = x + self.attention(self.norm(x, f"{layer}.ln_1"), layer)
            gate, up = linear(self.norm(x, f"{layer}.ln_2"), p[f"{layer}.up"]).chunk(2, dim=-1)
            x = x + linear(self.functional.silu(gate) * up, p[f"{layer}.down"])
        logits = linear(self.norm(x, "ln_f"), p["wte"]).float()
        return self.functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def make_optimizer(torch, parameters, plain):
    """(optimizer, its kind): the fastest AdamW that this PyTorch has for the device."""
    groups = [
        {"params": [p for p in parameters if p.dim() == 2], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.dim() != 2], "weight_decay": 0.0},
    ]
    for kind in ("plain",) if plain else ("fused", "foreach"):
        options = {} if kind == "plain" else {kind: True}
        try:
            return torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), **options), kind
        except (TypeError, RuntimeError):  # this version has no such kind for CPU tensors
            if kind != "fused":
                raise
    raise AssertionError("unreachable")


def run(arguments):
    """Trains; returns what to print, times in ms."""
    import torch

    on_gpu = arguments.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        raise SystemExit("pytorch_gpt2: this PyTorch finds no GPU")
    torch.backends.cuda.matmul.allow_tf32 = arguments.tf32
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)

    def mark():
        if not on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def milliseconds(begin, end):
        return begin.elapsed_time(end) if on_gpu else 1e3 * (end - begin)

    model = (Llama if arguments.preset in LLAMAS else Model)(torch, arguments)
    loss_of = torch.compile(model.loss) if arguments.compile else model.loss
    parameters = list(model.parameters.values())
    optimizer, adamw = make_optimizer(torch, parameters, arguments.plain_adamw)
    size = (arguments.batch, arguments.sequence_length + 1)
    phases, losses = [], []
    for _ in range(WARMUP_STEPS + arguments.steps):
        rows = torch.randint(0, arguments.vocab, size).to(arguments.device)
        start = mark()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(arguments.device, dtype=torch.bfloat16, enabled=arguments.bf16):
            loss = loss_of(rows[:, :-1], rows[:, 1:])
        forward = mark()
        loss.backward()
        backward = mark()
        optimizer.step()
        end = mark()
        losses.append(loss.item())
        if on_gpu:
            torch.cuda.synchronize()
        spans = ((start, end), (start, forward), (forward, backward), (backward, end))
        phases.append([milliseconds(*span) for span in spans])
    if not all(math.isfinite(value) for value in losses):
        raise SystemExit("pytorch_gpt2: the loss is not finite")

    steps, forwards, backwards, updates = zip(*phases[WARMUP_STEPS:])
    names = ("layers", "heads", "hidden", "vocab", "batch", "sequence_length", "threads", "steps")
    result = {name: getattr(arguments, name) for name in names}
    result.update(
        parameters=sum(p.numel() for p in parameters),
        device=torch.cuda.get_device_name() if on_gpu else "CPU",
        dtype="bf16 autocast" if arguments.bf16 else "TF32" if arguments.tf32 else "fp32",
        pytorch=torch.__version__,
        compiled=arguments.compile,
        attention="fused" if model.fused_attention else "plain",
        adamw=adamw,
        environment="tuned" if TUNED_MARK in os.environ else "as is",
        median_ms=statistics.median(steps),
        min_ms=min(steps),
        max_ms=max(steps),
        forward_ms=statistics.median(forwards),
        backward_ms=statistics.median(backwards),
        update_ms=statistics.median(updates),
        tokens_per_second=size[0] * arguments.sequence_length / statistics.median(steps) * 1e3,
        first_loss=losses[0],
        last_loss=losses[-1],
    )
    return result


def describe(result):
    return (
        "PyTorch {pytorch} {device} {dtype}{how} L{layers} H{heads} C{hidden} V{vocab} B{batch} "
        "T{sequence_length} ({parameters} parameters), {threads} threads, attention {attention}, "
        "AdamW {adamw}, environment {environment}: {median_ms:.2f} ms/step "
        "[{min_ms:.2f} {max_ms:.2f}] of {steps} (forward {forward_ms:.2f}, backward "
        "{backward_ms:.2f}, update {update_ms:.2f}), {tokens_per_second:.0f} tokens/s, "
        "loss {first_loss:.4f} -> {last_loss:.4f}"
    ).format(how=" compiled" if result["compiled"] else "", **result)


def main():
    arguments = parse_arguments()
    if not arguments.as_is and TUNED_MARK not in os.environ:
        restart_tuned(arguments.threads)
    try:
        result = run(arguments)
    except ImportError as error:
        raise SystemExit(f"pytorch_gpt2: PyTorch is needed and cannot be imported: {error}")
    print(json.dumps(result) if arguments.json else describe(result))


if __name__ == "__main__":
    main()
