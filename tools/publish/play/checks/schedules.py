"""The page of schedules: numbers, boxes and memory against the core, bubbles against lesson 16, and lists by hand."""
import itertools
import math
import re

from checks.page import Native, Page, Program

LESSONS = ["16_pipeline_schedules"]
ORDERS = ["naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v"]
DRAWN = {  # the course's pictures: how the page draws them
    "naive": "naive 4 2 1 1 1 1 0 0", "gpipe": "gpipe 4 8 1 1 1 1 0 0", "1f1b": "1f1b 4 8 1 1 1 1 0 0",
    "interleaved": "interleaved 4 8 2 1 1 1 0 33", "zb_h1": "zb-h1 4 8 1 1 1 1 0 33", "zb_v": "zb-v 4 8 2 1 1 1 0 33",
}


def settings_to_try() -> list[dict]:
    grid = [{"schedule": order, "p": p, "m": m, "v": 2} for order in ORDERS for p, m in ((4, 8), (8, 8), (3, 2), (1, 1), (2, 32), (8, 32))]
    # Each other slider at its ends and between.
    sweeps = {"p": range(1, 9), "m": range(1, 33), "v": (2, 3, 4), "F": (0.25, 1.5, 3), "B": (0.25, 2, 3), "W": (0.25, 0.75, 3), "message": (0.05, 0.5, 1)}
    for order, (name, values) in itertools.product(("interleaved", "zb-v", "1f1b"), sweeps.items()):
        grid += [{"schedule": order, "p": 4, "m": 8, "v": 2, name: value} for value in values]
    return grid


def check(page: Page, native: Native, program: Program) -> None:
    defaults = {"F": 1, "B": 1, "W": 1, "message": 0}
    for wanted in settings_to_try():
        settings = defaults | wanted
        page.move(**settings)
        costs = [settings[name] for name in ("F", "B", "W", "message")]
        answer = native.ask("schedule", *(settings[name] for name in ("schedule", "p", "m", "v")), *costs)
        compare(page, answer)
        if costs == [1, 1, 1, 0] and "error" not in answer:
            page.near(page.text("#bubble"), 100 * answer["unit_bubble"], 1, "the bubble by formula, counted")
    for settings in ({"schedule": o, "p": p, "m": m, "v": v} for o, p, m, v in (
            ("1f1b", 4, 8, 2), ("naive", 2, 3, 2), ("gpipe", 4, 6, 2), ("interleaved", 4, 8, 3), ("zb-h1", 4, 8, 2), ("zb-v", 4, 8, 2), ("zb-v", 8, 12, 2))):
        page.move(**(defaults | settings))
        compare_with_lesson(page, program)
    for name, words in DRAWN.items():
        drawn = page.value(f"drawing(...'{words}'.split(' '))")
        file = program.root / f"notes/pictures/schedule_{name}.svg"
        page.expect(drawn == file.read_text(encoding="utf-8"), True, f"draws {file.name} byte for byte")
    steps(page)
    lists(page, native)


def compare(page: Page, answer: dict) -> None:
    if "error" in answer:
        page.expect(page.text("#error"), answer["error"] + ".", "why not")
        page.expect(page.value("document.querySelector('figure').hidden"), True, "no picture")
        return
    run, chunks = answer["run"], answer["chunks"]
    page.near(page.text("#time"), run["time"], 3, "time")
    page.near(page.text("#bubble"), 100 * run["bubble"], 1, "bubble")
    page.near(page.text("#formula").split(" %")[0], 100 * answer["unit_bubble"], 1, "formula")
    page.near(by_letters(page), 100 * answer["unit_bubble"], 9, "the formula's letters")
    page.near(page.text("#held").split(" ")[0], max(run["buffers"]) / chunks, 3, "held")
    page.expect(page.text("#messages"), str(run["messages"]), "messages")
    work = [(kind, k, chunk, begin, end) for stage in run["stages"] for kind, k, chunk, _, begin, end in stage if "ward" in kind]
    wanted = [f"{kind} of micro-batch {k}" + (f", model chunk {chunk}" if chunks > 1 else "") for kind, k, chunk, _, _ in work]
    page.expect([title.split(":")[0] for title in page.texts("#picture .box title")], wanted, "boxes")
    places = page.value("[...document.querySelectorAll('#picture .box rect')].map((r) => [+r.getAttribute('x'), +r.getAttribute('width')])")
    scale, left = page.value("scale"), page.value("kLeft")
    wrong = [work[i] for i, (x, width) in enumerate(places)
             if abs(x - left - scale * work[i][3]) > 1e-6 or abs(width - scale * (work[i][4] - work[i][3])) > 1e-6]
    page.expect(wrong, [], "boxes where they are in time")
    # The curve of what stages hold has as many steps as the core says, and reaches what they need.
    curves = page.value("[...document.querySelectorAll('#picture .held')].map((c) => c.getAttribute('d').split('H').length - 2)")
    page.expect(curves, [len(stage) for stage in run["held"]], "steps of the memory curves")
    page.expect([max(number for _, number in stage) for stage in run["held"]], run["buffers"], "the curves' tops, in buffers")


def by_letters(page: Page) -> float:
    """What the formula beside the bubble gives, with its letters replaced."""
    formula = page.text("#formula small").replace("−", "-").strip()
    letters = {name: page.value(f"settings.{name}") for name in "pm"} | {"v": page.value("chunks"), "max": max, "floor": math.floor}
    python = re.sub(r"(?<=[\dpmv]) (?=[pmv(])", " * ", formula)
    return 100 * eval(python, {"__builtins__": {}}, letters)  # it is the page's own text


def compare_with_lesson(page: Page, program: Program) -> None:
    printed = program.run(page.text(".command pre"))
    bubble = re.search(r": bubble ([\d.]+) % if all stages cost the same", printed)
    page.expect(f"{bubble[1]} %" if bubble else printed[-300:], page.text("#bubble"), "lesson 16 prints the bubble")
    in_flight = [int(number) for number in re.findall(r"in flight: (\d+)", printed)]
    chunks = page.value("chunks")
    shown = [round(float(text.split(" ")[1]) * chunks) for text in page.texts("#picture text") if text.startswith("most ")]
    page.expect(shown, in_flight, "lesson 16 prints what is in flight")


def steps(page: Page) -> None:
    page.move(schedule="1f1b", p=2, m=2, F=1, B=1, W=1, message=0)
    page.value("document.activeElement.blur()")
    said = []
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "End", "Home"):
        page.press(key)
        said.append(page.text(".steps .say"))
    page.expect(said, [
        "time 0: stage 0: F0 · stage 1: waits for activation 0 of stage 0", "time 1: stage 0: F1 · stage 1: F0",
        "time 2: stage 0: waits for gradient 0 of stage 1 · stage 1: B0", "time 4: stage 0: B0 · stage 1: F1",
        "time 2: stage 0: waits for gradient 0 of stage 1 · stage 1: B0", "time 7: stage 0: B1 · stage 1: waits for the embedding's sum with stage 0",
        "→ steps through it"], "steps by keys")


def lists(page: Page, native: Native) -> None:
    page.move(schedule="mine", p=2, m=2, halves="no", buffers=2)
    page.value("document.querySelector('#lists .chosen').focus()")
    page.press("f", "f", "b", "b", "ArrowDown", "f", "b", "f", "b")
    page.expect(page.value("lists"), [["F0", "F1", "B0", "B1"], ["F0", "B0", "F1", "B1"]], "a list by keys")
    page.expect(page.text("#score"), "A step takes 9; the search's best, the par, takes 9. Par!", "a list that is right")
    page.expect(page.texts("#faults li"), [], "a list that is right has no faults")
    # The last stage's backward before its forward.
    page.press("ArrowLeft", "ArrowLeft")
    page.press("ArrowLeft", shift=True)
    page.expect(page.value("lists[1]"), ["B0", "F0", "F1", "B1"], "an action is moved")
    answer = native.ask("list", 2, 2, 2, 0, 1, 1, 1, 0, "F0 F1 B0 B1 / B0 F0 F1 B1")
    page.expect(page.texts("#faults li"), answer["faults"], "faults")
    page.expect(page.texts("#faults li")[0],
                "stage 1, backward of micro-batch 0: what is due is recv_activation of micro-batch 0 from stage 0", "the reason")
    page.expect(page.text("#score"), "", "no score for a list that is wrong")
    page.expect(len(page.texts("#lists .waits")), 6, "actions that cannot run")
    # Too many micro-batches at a time.
    page.press("ArrowRight", shift=True)
    page.move(buffers=1)
    page.expect(any("are in flight, allowed are 1" in fault for fault in page.texts("#faults li")), True, "too little memory")
    page.move(buffers=2)
    page.value("document.querySelector('#lists .chosen').focus()")
    page.press("Backspace")
    page.expect(page.text("#score"), "1 of 8 actions are not in the lists yet.", "a list that is not finished")
    # Each stage has its work in order, and yet both wait for ever.
    page.value("replaceLists([['F0', 'B0', 'F1', 'B1'], ['F0', 'F1', 'B0', 'B1']])")
    page.expect(page.texts("#faults li"), [
        "deadlock: stage 0 waits in recv_gradient of micro-batch 0 from stage 1; "
        "stage 1 waits in recv_activation of micro-batch 1 from stage 0"], "stages that wait for each other")
    # Slower than par, and par.
    page.move(m=4, halves="yes", buffers=4, p=3)
    page.value("replaceLists([0, 1, 2].map((s) => ['F', 'B', 'W'].flatMap((k) => [0, 1, 2, 3].map((i) => k + i))))")
    best = native.ask("par", 3, 4, 4, 1, 1, 1, 1, 0)["time"]
    over = float(page.text("#time")) - best
    page.expect(page.text("#score").endswith(f" {over:g} over par."), over > 0, "over par")
    page.value("[...document.querySelectorAll('#tools button')].at(-1).click()")
    page.expect(page.text("#score").endswith("Par!"), True, "the search's list is par")
    page.near(page.text("#time"), best, 3, "the time of the search's list")
