"""The page of memory: a sample of its choices against what the lessons print, before and after a step."""
import random
import re

from checks.page import Native, Page, Program

LESSONS = [
    "01_single_gpu", "02_ddp", "03_zero1", "04_zero2", "05_zero3", "06_offload", "07_tensor_parallel", "08_pipeline_parallel",
    "09_3d_parallel", "10_mixed_precision", "12_gradient_compression", "13_sequence_parallel", "14_context_parallel",
    "15_expert_parallel", "16_pipeline_schedules"]
SAMPLES = 160


def check(page: Page, native: Native, program: Program) -> None:
    del native  # the page has a table, no core
    choices = page.value("({model: table.models, dtype: table.dtypes, recompute: table.recompute, n: table.ranks, "
                         "batch: table.batches, lesson: table.bars.map((bar) => bar.name)})")
    page.expect(sorted(page.value("[...new Set(table.bars.map((bar) => bar.lesson))]")), LESSONS, "lessons")
    chance = random.Random(1)
    for sample in range(SAMPLES):
        page.move(**{name: chance.choice(values) for name, values in choices.items()})
        page.move(lesson=choices["lesson"][sample % len(choices["lesson"])])
        before_the_step(page, program)
    compared = 0
    for lesson in choices["lesson"]:
        page.move(model="gpt2", dtype="fp32", recompute="none", n=4, batch=2, lesson=lesson)
        compared += after_the_step(page, program)
    page.expect(compared >= 10, True, "bars that are compared to the byte")
    cards(page)


def before_the_step(page: Page, program: Program) -> None:
    """The lines of the header, with bytes in units; or why the lesson refuses."""
    # The cluster's GPUs have a limit, beyond which the run ends with another text.
    command = page.text(".command pre") + " --device-memory 1000TiB"
    printed = program.header(command)
    refusal = page.value("document.querySelector('.bar.here .refused')?.textContent")
    if refusal is not None:
        page.expect(refusal in printed, True, f"{command} prints {printed[-300:]}; the page says {refusal}")
        return
    for kind, column in (("memory", 2), ("host", 4)):
        line = re.search(rf"^  {kind} +(.*) predicted(?: for rank \d+ \(.*?\))?: (.*)$", printed, re.M)
        shown = {row[0]: row[column] for row in page.table("#bytes") if len(row) > column and row[column] != "0 B"}
        wanted = {}
        if line:
            wanted = {name: f"{number} {unit}" for name, number, unit in re.findall(r"(\w+) ([\d.]+) (\w+)", line[2])}
            wanted["all"] = line[1]
        page.expect(shown, wanted, f"{command} prints {kind}")
        page.expect("memory" in printed, True, f"{command} prints {printed[-300:]}")


def after_the_step(page: Page, program: Program) -> bool:
    """The table of bytes, predicted and counted. It is of the fullest rank, which the header of a simulated run does not
    look for where ranks differ by a few bytes; then there is nothing to compare."""
    printed = program.run(page.text(".command pre"))
    if "which needs the most:" in printed:
        return False
    for kind, column in (("device", 1), ("host", 3)):
        rows = {row[0]: row[column] for row in page.table("#bytes") if len(row) > column and row[0] != "all" and row[column] != "0"}
        wanted = dict(re.findall(rf"^  {kind} +(\w+) +([\d,]+) +\2$", printed, re.M))
        if rows or kind == "device":  # the page leaves a host out that has nothing but workspace
            page.expect(rows, wanted, f"{page.text('.command pre')} counts the {kind}'s bytes")
    return True


def cards(page: Page) -> None:
    """A bar is marked if it is larger than the card."""
    page.move(model="gpt2-xl", dtype="fp32", recompute="none", n=8, batch=1, lesson="02")
    for card in (8, 12, 16, 24, 32, 40, 48, 80, 96, 141, 180):
        page.move(card=card)
        marked = page.value("[...document.querySelectorAll('.bar:not(:has(.refused))')].map((bar) => bar.classList.contains('over'))")
        totals = [need for need in page.value("table.bars.map(needOf).map((need) => need.total ?? null)") if need is not None]
        page.expect(marked, [total > card * 2**30 for total in totals], f"a card of {card} GiB")
