#!/usr/bin/env python3
"""Asks PyTorch whether it can run a list that --draw FILE.csv wrote, and runs it.

    tools/run 16_pipeline_schedules -n 4 --schedule auto --draw out/list.csv --steps 1
    tools/measure/pytorch_schedule.py out/list.csv          needs torch

PyTorch reads the list (torch.distributed.pipelining), checks it, adds its own sends and receives, and
looks for a deadlock. Then a process for each line runs it on a small model, a layer for each virtual
stage, and the gradients are compared with those of one process. The exit status is 0 if they agree.
"""

import argparse
import pathlib
import sys
import tempfile

WIDTH, ROWS = 8, 2  # numbers of a row, and rows of a micro-batch


def layers(count):
    import torch

    torch.manual_seed(1)
    return [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU()).double() for _ in range(count)]


def batch(micro_batches):
    import torch

    torch.manual_seed(2)
    return torch.randn(2, micro_batches * ROWS, WIDTH, dtype=torch.float64)


def loss_of(output, target):
    return ((output - target) ** 2).sum()


def gradients_of(modules):
    return {f"{i}.{name}": parameter.grad for i, module in modules.items()
            for name, parameter in module.named_parameters()}


def runtime_of(path, rank, num_stages, micro_batches):
    """PyTorch's schedule of one rank with its stages, and their modules."""
    import torch
    from torch.distributed.pipelining import PipelineStage, schedules

    actions = [schedules._Action.from_str(word) for word in path.read_text().splitlines()[rank].split(",")]
    own = sorted({action.stage_index for action in actions})
    modules = dict(enumerate(layers(num_stages)))
    modules = {i: modules[i] for i in own}
    stages = [PipelineStage(module, i, num_stages, torch.device("cpu")) for i, module in modules.items()]
    # A loss for each micro-batch; their gradients are added up.
    runtime = schedules._PipelineScheduleRuntime(stages, micro_batches, loss_fn=loss_of, scale_grads=False)
    runtime._load_csv(str(path), format="compute_only")
    return runtime, modules


def run_rank(rank, path, shape, folder):
    import torch
    import torch.distributed as dist

    num_ranks, num_stages, micro_batches = shape
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=num_ranks)
    runtime, modules = runtime_of(path, rank, num_stages, micro_batches)
    values, target = batch(micro_batches)
    runtime.step(*([values] if 0 in modules else []), **({"target": target} if num_stages - 1 in modules else {}))
    torch.save(gradients_of(modules), f"{folder}/gradients_{rank}.pt")
    dist.destroy_process_group()


def reference(num_stages, micro_batches):
    import torch

    modules = layers(num_stages)
    values, target = batch(micro_batches)
    loss_of(torch.nn.Sequential(*modules)(values), target).backward()
    return gradients_of(dict(enumerate(modules)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", type=pathlib.Path)
    path = parser.parse_args().list
    import torch
    from torch.distributed.pipelining import schedules

    try:
        rows = [[schedules._Action.from_str(word) for word in line.split(",")]
                for line in path.read_text().splitlines()]
        every = [action for row in rows for action in row if action]
        shape = (len(rows), 1 + max(action.stage_index for action in every),
                 1 + max(action.microbatch_index for action in every))
        stage_to_rank = schedules._validate_schedule(dict(enumerate(rows)), *shape).__getitem__
        messages = schedules._add_send_recv(dict(enumerate(map(list, rows))), stage_to_rank, shape[1])
        schedules._simulate_comms_compute(messages, stage_to_rank, shape[1])
    except (OSError, ValueError, RuntimeError, AssertionError) as fault:
        print(f"{path}: {str(fault).splitlines()[0]}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run_rank, (path.resolve(), shape, folder), nprocs=shape[0])
        found = {}
        for rank in range(shape[0]):
            found |= torch.load(f"{folder}/gradients_{rank}.pt")
    exact = reference(*shape[1:])
    worst = max(((found[name] - value).abs().max() / value.abs().max()).item() for name, value in exact.items())
    # Sums of at most some thousand products in fp64.
    good = set(found) == set(exact) and worst <= 1e-12
    print(f"{path}: {shape[0]} ranks, {shape[1]} stages, {shape[2]} micro-batches, {len(every)} actions; "
          f"PyTorch {torch.__version__} runs it; gradients differ by {worst:.1e} {'' if good else 'WRONG'}".rstrip())
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
