"""The page of ring attention: its square and bars against the core, its table against lesson 14."""
import re

from checks.page import Native, Page, Program

LESSONS = ["14_context_parallel"]


def check(page: Page, native: Native, program: Program) -> None:
    for slices in ("zigzag", "contiguous"):
        page.move(slices=slices, t=64)
        for n in range(2, 9):
            page.move(n=n)
            compare(page, native)
        for t in (16, 32, 48, 64, 96, 128, 192, 256):
            page.move(t=t, n=5)
            compare(page, native)
        for n, t in ((4, 64), (3, 16), (8, 256)):
            page.move(n=n, t=t)
            compare_with_lesson(page, program)
    keys(page)


def compare(page: Page, native: Native) -> None:
    slices, t, n = (page.value(f"settings.{name}") for name in ("slices", "t", "n"))
    answer = native.ask("attention", slices, t, n)
    drawn = page.value("[...document.querySelectorAll('#square .pairs')].map((e) => Number(e.dataset.pairs))")
    tiles = [tile for tiles in answer["rounds"] for tile in tiles if tile]
    page.expect(drawn, [tile[5] for tile in tiles], "pairs of each tile")
    page.expect(sum(drawn), t * (t + 1) // 2, "all pairs, each once")
    page.near(page.text("#critical"), answer["critical"], 0, "critical path")
    page.near(page.text("#most"), max(answer["pairs"]), 0, "busiest rank")
    page.near(page.text("#least"), min(answer["pairs"]), 0, "idlest rank")
    longest = sum(max(tile[5] if tile else 0 for tile in tiles) for tiles in answer["rounds"])
    page.expect(answer["critical"], longest, "the longest bars of the rounds, added up")
    other = native.ask("attention", "contiguous" if slices == "zigzag" else "zigzag", t, n)["critical"]
    page.near(page.text("#ratio").split(" ")[0], other / answer["critical"], 2, "compared with the other slices")
    for at in (0, 1, n):
        page.value(f"player.go({at})")
        now = page.value("[...document.querySelectorAll('#square .now')].map((e) => Number(e.dataset.pairs))")
        page.expect(now, [tile[5] for tile in answer["rounds"][at] if tile] if at < n else [], f"round {at}")


def compare_with_lesson(page: Page, program: Program) -> None:
    printed = program.run(page.text(".command pre"))
    rows = [list(row) for row in re.findall(r"^ +(\d+)  (\d+ to \d+(?:, \d+ to \d+)?) +([\d,]+) +([\d,]+)$", printed, re.M)]
    page.expect(page.table("#ranks"), rows, "lesson 14 prints the table")
    path = re.search(r"critical path: ([\d,]+)", printed)
    page.expect(page.text("#critical"), path[1] if path else printed[-300:], "lesson 14 prints the critical path")


def keys(page: Page) -> None:
    page.move(slices="contiguous", n=4, t=64)
    page.value("document.activeElement.blur()")
    page.press("Home")
    page.expect(page.text(".steps .say"), "round 0 of 0 to 3: each rank with its own keys", "the first round")
    page.press("ArrowRight")
    page.expect(page.text(".steps .say"), "round 1 of 0 to 3: rank r with the keys of rank r - 1; 1 rank waits", "a round")
    page.press("End")
    page.expect(page.text(".steps .say"), "all rounds are done", "after the last round")
