"""What the reports in tools/measure share: they run lessons, and read what those print and write."""
import argparse
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAMS = ROOT / "bazel-bin"


def end(number, _):
    """As Ctrl-C does, ends what runs, in all threads, and removes temporary folders."""
    subprocess.run(["pkill", "--parent", str(os.getpid())], check=False)
    sys.exit(128 + number)


for signal_number in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(signal_number, end)


def parser_of(doc):
    return argparse.ArgumentParser(description=doc,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)


def build(*labels):
    status = subprocess.run([ROOT / "tools/build", *labels], check=False).returncode
    if status:  # tools/build has said why
        sys.exit(status)


def build_lessons(names, *labels):
    build(*[f"//lessons/{name}" for name in sorted(set(names))], *labels)


def call(program, *flags, ranks=0, accepted=(0,)):
    """Runs a program, under mpirun where there are ranks. A status that is not accepted ends the report
    with that status; None accepts all."""
    launcher = [ROOT / "tools/mpirun", "-n", ranks] if ranks else []
    command = [str(word) for word in (*launcher, program, *flags)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if accepted is not None and done.returncode not in accepted:
        print(f"{' '.join(command)}\n{done.stderr.strip()}", file=sys.stderr)
        sys.exit(done.returncode)
    return done


def run(lesson, *flags, programs=PROGRAMS, **how):
    return call(programs / "lessons" / lesson / lesson, *flags, **how)


def train(lesson, metrics, *flags, **how):
    """Runs a lesson without a sample; returns how it ended, and the steps of its metrics if it ended well.
    `metrics` is the file that keeps them."""
    done = run(lesson, "--sample", 0, "--metrics", metrics, *flags, **how)
    lines = metrics.read_text().splitlines() if done.returncode == 0 else []
    return done, [json.loads(line) for line in lines]


def file_of(folder, name, ending=".jsonl"):
    return folder / (re.sub(r"\W+", "_", name) + ending)


def number(text):
    return float(text.replace(",", "")) if text != "-" else 0.0


def milliseconds(out):
    """The step of the virtual device."""
    return number(re.search(r"simulated step ([0-9.]+) ms", out)[1])


def memory(out):
    """Each row of the table of memory: arena, category, bytes predicted and measured."""
    rows = re.findall(r"^  (device|host) +(\w+) +([\d,]+) +([\d,]+)$", out, re.MULTILINE)
    return [(arena, category, *map(number, sizes)) for arena, category, *sizes in rows]


def communication(out):
    """Each row of the table of communication: its name, the bytes that a rank sends in a step (by formula
    where nobody counts them), and exposed milliseconds."""
    rows = re.findall(r"^  (\S.*\S) +(?:<= )?([\d,]+|-) +([\d,]+|by formula) +(-?[\d.]+) +-?[\d.]+$",
                      out, re.MULTILINE)
    return [(name, number(formula if sent == "by formula" else sent), float(exposed))
            for name, formula, sent, exposed in rows]


def gradients(dump, step):
    """The numbers of each gradient in a dump of fp32 or fp64."""
    data = (dump / f"step_{step:06d}.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    numbers = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name.startswith("grad."):
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            size, letter = {"F32": (4, "f"), "F64": (8, "d")}[entry["dtype"]]
            numbers[name.removeprefix("grad.")] = struct.unpack(f"<{(end - begin) // size}{letter}",
                                                                data[begin:end])
    return numbers


def row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def head(*names):
    row(*names)
    print("|" + "---|" * len(names))
