"""The page of collectives: rounds and bytes against formulas and the core, rounds in words against lesson 00."""
import math

from checks.page import Native, Page, Program

LESSONS = ["00_collectives"]
ALGORITHMS = ["naive", "ring", "tree", "halving"]
COLLECTIVES = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all"]


def rounds_of_all_reduce(algorithm: str, n: int) -> int:
    """The lesson's table."""
    return 2 * (n - 1) if algorithm in ("naive", "ring") else 2 * math.ceil(math.log2(n))


def check(page: Page, native: Native, program: Program) -> None:
    for collective in COLLECTIVES:
        for n in (2, 3, 4, 7, 8, 16, 32):
            page.move(collective=collective, n=n)
            for algorithm in ALGORITHMS:
                page.move(algorithm=algorithm)
                compare(page, native, collective, algorithm, n)
    page.move(collective="all_reduce", algorithm="ring", n=8)
    for name, values in {"n": range(2, 33), "bytes": [2**i for i in range(10, 29)], "alpha": (0.1, 5, 100), "bandwidth": (0.1, 25, 900)}.items():
        for value in values:
            page.move(**{name: value})
            costs(page, native)
        page.move(n=8, bytes=2**22, alpha=10, bandwidth=10)
    page.expect(page.text("#crossing"), "The fastest: halving.", "the fastest")
    page.move(n=24)
    crossing(page, native)
    for n, algorithm, collective in ((4, "ring", "all_reduce"), (4, "halving", "all_reduce"), (3, "tree", "broadcast"), (4, "ring", "all_to_all")):
        page.move(n=n, algorithm=algorithm, collective=collective)
        page.expect(page.text("#words pre"), program.run(page.text(".command pre")), "lesson 00 prints the words")
    keys(page)


def compare(page: Page, native: Native, collective: str, algorithm: str, n: int) -> None:
    cost = next(one for one in native.ask("costs", collective, n, 2**22, 1e-5, 1e-10) if one["name"] == algorithm)
    page.expect(page.value("document.querySelector('#error').hidden"), "why_not" not in cost, "whether the algorithm does it")
    if "why_not" in cost:
        page.expect(page.text("#error"), cost["why_not"] + ".", "why not")
        return
    page.press("End")
    rounds = page.value("player.last")
    page.expect(rounds, cost["rounds"], "rounds")
    if collective == "all_reduce":
        page.expect(rounds, rounds_of_all_reduce(algorithm, n), "rounds by formula")
    answer = native.ask("exchanges", algorithm, collective, n, rounds)
    titles = page.texts("#circle .message title")
    page.expect(len(titles), len(answer["messages"]), "messages of the last round")
    shown = page.value("[...document.querySelectorAll('#circle .cell')].map((c) => c.classList.contains('full'))")
    final = [value is not None and is_final(collective, rank, part, value, n)
             for rank, vector in enumerate(answer["has"]) for part, value in enumerate(vector)]
    page.expect(shown, final, "cells that are as promised")
    promised = {"all_reduce": n * n, "reduce_scatter": n, "reduce": n, "all_gather": n * n, "broadcast": n * n, "all_to_all": n * n}
    page.expect(sum(final), promised[collective], "cells that must be as promised in the end")


def is_final(collective: str, rank: int, part: int, value: float, n: int) -> bool:
    everybody = value == 2**n - 1
    return {"all_reduce": everybody, "reduce_scatter": everybody and rank == part, "reduce": everybody and rank == 0,
            "all_gather": value == 2**part, "broadcast": value == 1, "all_to_all": value == 2**part}[collective]


def costs(page: Page, native: Native) -> None:
    bytes_, alpha, bandwidth, n = (page.value(f"settings.{name}") for name in ("bytes", "alpha", "bandwidth", "n"))
    wanted = native.ask("costs", "all_reduce", n, bytes_, alpha * 1e-6, 1 / (bandwidth * 1e9))
    rows = {row[0]: row[1:] for row in page.table("#costs")}
    page.expect(list(rows), [one["name"] for one in wanted], "rows of costs")
    for one in wanted:
        row = rows[one["name"]]
        if "why_not" in one:
            page.expect(row, ["N must be a power of two"], "why not")
            continue
        page.expect(row[0], str(one["rounds"]), "rounds")
        for text, value in ((row[1], one["most_sent"]), (row[2], one["seconds"])):
            page.expect(abs(plain(text) / value - 1) <= 5e-4, True, f"{text} for {value}")
        if one["name"] != "naive":
            # The closed form of the lesson's table; where ranks do not divide the vector, a part is a number longer.
            share = (2 * (n - 1) / n if one["name"] in ("ring", "halving") else math.ceil(math.log2(n)))
            page.expect(abs(one["most_sent"] - share * bytes_) <= 8 * n, True, "bytes by formula")


def plain(text: str) -> float:
    number, unit = text.split(" ")
    units = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "µs": 1e-6, "ms": 1e-3, "s": 1}
    return float(number) * units[unit]


def crossing(page: Page, native: Native) -> None:
    """Before the size that the page names one algorithm is the fastest, after it another one."""
    before, after = page.text("#crossing").removeprefix("The fastest: ").rstrip(".").split(", from ")
    size, name = after.split(" on ")
    for factor, wanted in ((0.98, before), (1.02, name)):
        all_costs = [one for one in native.ask("costs", "all_reduce", 24, int(plain(size) * factor), 1e-5, 1e-10) if "why_not" not in one]
        page.expect(min(all_costs, key=lambda one: one["seconds"])["name"], wanted, "the fastest beside a crossing")


def keys(page: Page) -> None:
    page.move(n=4, algorithm="ring", collective="all_reduce")
    page.value("document.activeElement.blur()")
    page.press("Home")
    page.expect(page.text(".steps .say"), "before the first of 6 rounds", "the first round")
    page.press("ArrowRight")
    page.expect(page.text(".steps .say"), "round 0, 1 of 6: 4 messages of one part, added", "a round")
    page.expect(page.texts("#circle .message title")[0], "rank 3 sends part 2 to rank 0, which adds it", "a message")
    page.press("End")
    page.expect(page.text(".steps .say"), "round 5, 6 of 6: 4 messages of one part, stored", "the last round")
