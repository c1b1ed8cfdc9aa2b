"""The page of memory: a sample of its choices against what the lessons print before they train."""
import random
import re

from checks.page import Native, Page, Program

LESSONS = [
    "01_single_gpu", "02_ddp", "03_zero1", "04_zero2", "05_zero3", "06_offload", "07_tensor_parallel", "08_pipeline_parallel",
    "09_3d_parallel", "10_mixed_precision", "12_gradient_compression", "13_sequence_parallel", "14_context_parallel",
    "15_expert_parallel", "16_pipeline_schedules"]
SAMPLES = 60


def check(page: Page, native: Native, program: Program) -> None:
    table = page.value("({models: table.models, dtype: table.dtypes, recompute: table.recompute, n: table.ranks, batch: table.batches, "
                       "bars: table.bars.map((bar) => bar.name)})")
    page.expect(sorted(page.value("[...new Set(table.bars.map((bar) => bar.lesson))]")), LESSONS, "lessons")
    chance = random.Random(1)
    for sample in range(SAMPLES):
        page.move(model=chance.choice(table["models"]), dtype=chance.choice(table["dtype"]), recompute=chance.choice(table["recompute"]),
                  n=chance.choice(table["n"]), batch=chance.choice(table["batch"]), lesson=table["bars"][sample % len(table["bars"])])
        compare_with_lesson(page, program)
    cards(page)


def compare_with_lesson(page: Page, program: Program) -> None:
    # The cluster's GPUs have a limit, beyond which the run ends with another text.
    command = page.text(".command pre")
    printed = program.run(command + " --device-memory 1000TiB --evaluate-every 0")
    refusal = page.value("document.querySelector('.bar.here .refused')?.textContent")
    if refusal is not None:
        page.expect(refusal in printed, True, f"{command} refuses: {printed[-300:]}; the page says: {refusal}")
        return
    for kind, column in (("memory", 1), ("host", 3)):
        line = re.search(rf"^  {kind} +(.*) predicted(?: for rank \d+ \(.*?\))?: (.*)$", printed, re.M)
        shown = {row[0]: row[column + 1] for row in page.table("#bytes") if len(row) > column and row[column] != "0"}
        if line is None:
            page.expect(shown if kind == "host" else printed[-300:], {}, f"{command} prints {kind}")
            continue
        wanted = dict(part.rsplit(" ", 2)[0::1][0:1] + [" ".join(part.rsplit(" ", 2)[1:])] for part in line[2].split(", "))
        page.expect(shown, wanted | {"all": line[1]}, f"{command} prints {kind}")


def cards(page: Page) -> None:
    """A bar is marked if it is larger than the card."""
    page.move(model="gpt2-xl", dtype="fp32", recompute="none", n=8, batch=1, lesson="02_ddp")
    for card in (8, 24, 80, 180):
        page.move(card=card)
        marked = page.value("[...document.querySelectorAll('.bar:not(:has(.refused))')].map((bar) => bar.classList.contains('over'))")
        totals = [need for need in page.value("table.bars.map(needOf).map((need) => need.total ?? null)") if need is not None]
        page.expect(marked, [total > card * 2**30 for total in totals], f"a card of {card} GiB")
