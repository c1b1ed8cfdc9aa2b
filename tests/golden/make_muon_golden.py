#!/usr/bin/env python3
"""Writes muon.safetensors: two steps of torch.optim.Muon, which iterates in bf16.

    python3 tests/golden/make_muon_golden.py            write the file beside this script
    python3 tests/golden/make_muon_golden.py --check    compute again, compare, write nothing

Needs torch (made with 2.15) and safetensors. Of each CASE, such as `tall.rms`, there are in F32
CASE.param (rows, columns), which are outputs and inputs, CASE.grad1, CASE.grad2, and CASE.after, the
parameter after both steps; and settings.learning_rate, .weight_decay and .momentum of all cases.
"""

import argparse
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

OUTPUT = Path(__file__).resolve().parent / "muon.safetensors"
SEED = 20261127
SETTINGS = {"learning_rate": 0.02, "weight_decay": 0.1, "momentum": 0.9}
SHAPES = {"tall": (48, 20), "square": (32, 32), "flat": (20, 48)}
SCALES = {"spectral": "original", "rms": "match_rms_adamw"}


def compute():
    """Returns the tensors of the file."""
    generator = torch.Generator().manual_seed(SEED)
    tensors = {f"settings.{name}": torch.tensor([value]) for name, value in SETTINGS.items()}
    for shape_name, shape in SHAPES.items():
        for scale, adjust in SCALES.items():
            case = f"{shape_name}.{scale}"
            draw = [torch.randn(shape, generator=generator) for _ in range(3)]
            tensors |= dict(zip([f"{case}.param", f"{case}.grad1", f"{case}.grad2"], [x.clone() for x in draw]))
            param = torch.nn.Parameter(draw[0])
            muon = torch.optim.Muon([param], lr=SETTINGS["learning_rate"], weight_decay=SETTINGS["weight_decay"],
                                    momentum=SETTINGS["momentum"], adjust_lr_fn=adjust)
            for grad in draw[1:]:
                param.grad = grad
                muon.step()
            tensors[f"{case}.after"] = param.detach().clone()
    return tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="compare with the file, write nothing")
    tensors = compute()
    if not parser.parse_args().check:
        save_file(tensors, OUTPUT)
        return 0
    stored = load_file(OUTPUT)
    # Another version or machine may round in bf16 elsewhere.
    same = stored.keys() == tensors.keys() and all(
        torch.allclose(stored[name], tensors[name], rtol=0, atol=1e-2) for name in stored)
    print("the same" if same else "another file")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
