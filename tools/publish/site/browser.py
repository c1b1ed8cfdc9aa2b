"""A headless Chromium, driven over its debugging pipe: no server, no driver, no other package.

    with Browser() as browser:
        browser.open("file:///.../index.html")
        browser.evaluate("document.title")
        browser.press("Tab")

It has no way to the network: whatever a page asks of another host is in `foreign`, and fails.
"""
import base64
import fcntl
import json
import os
import select
import subprocess
import tempfile
import time

PROGRAM = "chromium"
FLAGS = [
    "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu",
    "--disable-extensions", "--disable-background-networking", "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-sandbox",  # it cannot have one as root or in Bazel's; it only reads pages of this tree
    "--host-resolver-rules=MAP * ~NOTFOUND",
]
KEYS = {  # code, number, text
    "Tab": ("Tab", 9, ""), "Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, ""),
    " ": ("Space", 32, " "), "ArrowDown": ("ArrowDown", 40, ""), "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""), "ArrowRight": ("ArrowRight", 39, ""),
    "Home": ("Home", 36, ""), "End": ("End", 35, ""), "/": ("Slash", 191, "/"),
}


class BrowserError(Exception):
    """Chromium is missing, has ended, says nothing, or a script on the page has failed."""


class Browser:
    def __init__(self, seconds=30):
        self.seconds = seconds  # the longest that anything may take
        self.foreign = []       # addresses on other hosts that pages asked for
        self.errors = []        # what pages wrote to the console as errors
        self._sent, self._rest, self._answers, self._loaded = 0, b"", {}, False

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._out = self._pipe()
        self._in, theirs_out = self._pipe()
        # Chromium reads descriptor 3 and writes 4.
        command = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "-", PROGRAM, *FLAGS,
                   f"--user-data-dir={self._folder.name}", "about:blank"]
        self._process = subprocess.Popen(command, pass_fds=(theirs_in, theirs_out),
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                         env=os.environ | {"HOME": self._folder.name})
        os.close(theirs_in)
        os.close(theirs_out)
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(domain + ".enable")
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._folder.cleanup()

    @staticmethod
    def _pipe():
        """Two ends above 9, so that neither is in the way of 3 and 4."""
        ends = os.pipe()
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
        for end in ends:
            os.close(end)
        return high

    def call(self, method, **parameters):
        """One command of the DevTools protocol; returns its result."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        try:
            os.write(self._out, json.dumps(message).encode() + b"\0")
        except BrokenPipeError:
            raise BrowserError(f"{PROGRAM} has ended") from None
        number = self._sent
        self._read_until(lambda: number in self._answers, method)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _read_until(self, is_done, what):
        end = time.monotonic() + self.seconds
        while not is_done():
            if not select.select([self._in], [], [], max(0, end - time.monotonic()))[0]:
                raise BrowserError(f"{PROGRAM} has not answered within {self.seconds} s: {what}")
            got = os.read(self._in, 1 << 20)
            if not got:
                raise BrowserError(f"{PROGRAM} has ended: {what}")
            *messages, self._rest = (self._rest + got).split(b"\0")
            for message in messages:
                self._take(json.loads(message))

    def _take(self, message):
        method, parameters = message.get("method"), message.get("params", {})
        if "id" in message:
            self._answers[message["id"]] = message
        elif method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            address = parameters["request"]["url"]
            if not address.startswith(("file:", "data:", "blob:", "about:")):
                self.foreign.append(address)
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])

    def open(self, address):
        """Loads a page, with its pictures and frames."""
        self._loaded = False
        answer = self.call("Page.navigate", url=address)
        if "errorText" in answer:
            raise BrowserError(f"{address}: {answer['errorText']}")
        if "loaderId" in answer:  # else only the anchor has changed
            self._read_until(lambda: self._loaded, address)

    def evaluate(self, script):
        """The value of a JavaScript expression; waits where it is a promise."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait_for(self, script):
        """Until a JavaScript expression is true."""
        end = time.monotonic() + self.seconds
        while not self.evaluate(f"!!({script})"):
            if time.monotonic() > end:
                raise BrowserError(f"not within {self.seconds} s: {script}")
            time.sleep(0.02)

    def press(self, key):
        code, number, text = KEYS[key]
        common = {"key": key, "code": code, "windowsVirtualKeyCode": number}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def write(self, text):
        self.call("Input.insertText", text=text)

    def move_to(self, selector):
        """Puts the pointer on the middle of the first line of an element."""
        x, y = self.evaluate(f"""(() => {{
            const element = document.querySelector({json.dumps(selector)});
            element.scrollIntoView({{block: "center", behavior: "instant"}});
            const box = element.getClientRects()[0];
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return x, y

    def click(self, selector):
        x, y = self.move_to(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def set_size(self, width, height, is_phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=is_phone)

    def set_scheme(self, scheme):
        """What the system asks for: "light" or "dark"."""
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, file, is_whole=False):
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=is_whole)
        with open(file, "wb") as out:
            out.write(base64.b64decode(answer["data"]))
