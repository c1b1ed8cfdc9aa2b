"""What the checks have in common: a page in a browser, the native core, the lessons' programs."""
import json
import re
import select
import subprocess
from pathlib import Path
from typing import Any

from browser import Browser

# Moves a control as a reader would: returns whether there is such a value.
MOVE = """((name, value) => {
  const radio = document.querySelector(`input[type=radio][name="${name}"][value="${value}"]`);
  if (radio) { radio.click(); return true; }
  const slider = document.getElementById(name);
  for (let i = 0; i <= Number(slider.max); ++i) {
    slider.value = i;
    slider.dispatchEvent(new Event("input", {bubbles: true}));
    if (String(settings[name]) === String(value)) return true;
  }
  return false;
})(%s, %s)"""


class Page:
    def __init__(self, browser: Browser, file: Path, findings: list[str]) -> None:
        self.browser, self.file, self.findings = browser, file, findings
        self.number = 0  # of comparisons

    def open(self, settings: str = "") -> None:
        self.browser.open("about:blank")
        self.browser.open(self.file.as_uri() + settings)
        self.browser.wait_for("document.body.dataset.ready")

    def value(self, script: str) -> Any:
        return self.browser.evaluate(script)

    def text(self, selector: str) -> str:
        return self.value(f"document.querySelector({json.dumps(selector)}).textContent")

    def texts(self, selector: str) -> list[str]:
        return self.value(f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)")

    def table(self, selector: str) -> list[list[str]]:
        """Rows of cells, without those of the head."""
        return self.value(f"[...document.querySelectorAll('{selector} tr')].map((row) => "
                          "[...row.querySelectorAll('td')].map((cell) => cell.textContent)).filter((row) => row.length)")

    def move(self, **settings: Any) -> None:
        for name, value in settings.items():
            if not self.value(MOVE % (json.dumps(name), json.dumps(str(value)))):
                raise AssertionError(f"{self.file.name}: {name} has no value {value}")

    def press(self, *keys: str, shift: bool = False) -> None:
        for key in keys:
            code = "Key" + key.upper() if len(key) == 1 and key != " " else key
            number = ord(key.upper()) if len(key) == 1 else 0
            event = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": 8 if shift else 0}
            self.browser.call("Input.dispatchKeyEvent", type="keyDown", **event)
            self.browser.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def expect(self, shown: Any, wanted: Any, what: str) -> None:
        self.number += 1
        if shown != wanted:
            settings = self.value("typeof settings === 'undefined' ? '' : new URLSearchParams(settings).toString()")
            self.findings.append(f"{self.file.name}#{settings}: {what}: shows {shown!r}, wanted {wanted!r}")

    def near(self, shown: str | float, wanted: float, digits: int, what: str) -> None:
        """A number that is shown with so many digits after the point."""
        number = float(re.sub(r"[ %,]", "", str(shown)))
        is_near = abs(number - wanted) <= 0.5 * 10**-digits * (1 + 1e-9)
        self.expect(number if not is_near else wanted, wanted, what)

    def is_well(self) -> None:
        self.expect(self.browser.errors, [], "errors of scripts")
        self.expect(self.browser.foreign, [], "requests to other hosts")


class Native:
    """tools/publish/play/native.cc: answers what pages ask their core."""

    def __init__(self, root: Path) -> None:
        self.program = root / "bazel-bin/tools/publish/play/native"

    def __enter__(self) -> "Native":
        self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def ask(self, *words: Any) -> Any:
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


class Program:
    """Runs commands of pages, tools/run LESSON ..., whose programs have been built."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def arguments(self, command: str) -> list[str]:
        tool, lesson, *flags = command.split()
        assert tool == "tools/run", command
        folder = next(self.root.glob(f"lessons/{lesson}*"))
        program = [str(self.root / "bazel-bin/lessons" / folder.name / folder.name)]
        if flags[0] == "-n":
            program = [str(self.root / "tools/mpirun"), "-n", flags[1], *program]
            flags = flags[2:]
        return program + flags

    def run(self, command: str) -> str:
        """Returns all that it prints. Of a run that fails that is its error, too."""
        done = subprocess.run(self.arguments(command), capture_output=True, text=True, timeout=300)
        return done.stdout + done.stderr

    def header(self, command: str) -> str:
        """Returns what it prints before it trains, which it writes at once, or its error, and ends it."""
        with subprocess.Popen(self.arguments(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            printed = process.stdout.read1()
            while select.select([process.stdout], [], [], 0.2)[0] and (more := process.stdout.read1()):
                printed += more
            process.kill()
        return printed.decode()
