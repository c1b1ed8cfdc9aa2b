"""Compares the text of pictures, as rsvg-convert draws it, with the boxes that svg.cc reckons with.

usage: picture_pixels.py SVG.CC PICTURE...
"""

import html
import re
import struct
import subprocess
import sys
import zlib

PHONE = 360  # pixels
SLACK = 1  # pixels, of that width

Rows = list[list[bytes]]  # by line and pixel
Box = tuple[float, float, float, float]  # left, top, right, bottom


def read_widths(source: str) -> dict[bool, list[int]]:
    """The widths of the characters from ' ' to '~', of text that is bold and that is not."""
    tables = {}
    for bold, name in (False, "kWidths"), (True, "kBoldWidths"):
        numbers = re.search(name + r" = \{([^}]*)\}", source)[1]
        tables[bold] = [int(number) for number in numbers.split(",")]
    return tables


def boxes_of(svg: str, widths: dict[bool, list[int]]) -> list[tuple[str, Box]]:
    """Every text and its box."""
    boxes = []
    for attributes, escaped in re.findall(r"<text ([^>]*)>([^<]*)</text>", svg):
        values = dict(re.findall(r'([a-z-]+)="([^"]*)"', attributes))
        text = html.unescape(escaped)
        size = int(values["font-size"])
        table = widths["font-weight" in values]
        width = sum(table[ord(c) - 32] for c in text) * size / 100
        x, y = float(values["x"]), float(values["y"])
        left = x - {"start": 0, "middle": width / 2, "end": width}[values["text-anchor"]]
        boxes.append((text, (left, y - size, left + width, y + 0.3 * size)))
    return boxes


def unfiltered(line: bytes, before: bytes, kind: int, size: int) -> bytes:
    """A line of a PNG with so many bytes a pixel. [PNG 9.2]"""
    if kind == 0 or not any(line) and kind != 4 and not any(before):
        return line
    result = bytearray(line)
    for i in range(len(result)):
        a = result[i - size] if i >= size else 0
        b = before[i]
        c = before[i - size] if i >= size else 0
        if kind == 4:
            p = a + b - c
            guess = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
        else:
            guess = (a, b, (a + b) // 2)[kind - 1]
        result[i] = (result[i] + guess) & 255
    return bytes(result)


def drawn(svg: str) -> Rows:
    """The lines of the picture, as wide as a phone."""
    png = subprocess.run(
        ["rsvg-convert", "--width", str(PHONE), "--keep-aspect-ratio"],
        input=svg.encode(), stdout=subprocess.PIPE, check=True).stdout
    at, data = 8, b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        if kind == b"IHDR":
            size = {b"\x08\x02": 3, b"\x08\x06": 4}[png[at + 16:at + 18]]  # RGB, or with alpha
        if kind == b"IDAT":
            data += png[at + 8:at + 8 + length]
        at += 12 + length
    data = zlib.decompress(data)
    stride = size * PHONE
    rows = [bytes(stride)]
    for begin in range(0, len(data), stride + 1):
        rows.append(unfiltered(data[begin + 1:begin + 1 + stride], rows[-1], data[begin], size))
    return [[row[i:i + 3] for i in range(0, stride, size)] for row in rows[1:]]


def ink_of(svg: str) -> list[tuple[int, int]]:
    """The pixels that text changes."""
    without = drawn(re.sub(r"<text .*?</text>\n", "", svg))
    return [(x, y) for y, (a, b) in enumerate(zip(drawn(svg), without)) if a != b
            for x in range(PHONE) if a[x] != b[x]]


def findings_of(svg: str, widths: dict[bool, list[int]]) -> list[str]:
    scale = PHONE / float(re.search(r'viewBox="0 0 ([0-9.]+)', svg)[1])
    boxes = [(text, tuple(scale * value for value in box)) for text, box in boxes_of(svg, widths)]
    seen = [False] * len(boxes)
    findings = []
    for x, y in ink_of(svg):
        # A pixel is from x to x + 1.
        found = [i for i, (_, (left, top, right, bottom)) in enumerate(boxes)
                 if left - SLACK < x + 1 and x < right + SLACK
                 and top - SLACK < y + 1 and y < bottom + SLACK]
        for i in found:
            left, _, right, _ = boxes[i][1]
            seen[i] |= left <= x and x + 1 <= right
        if not found:
            findings.append(f"ink at ({x / scale:.0f}, {y / scale:.0f}), beyond the boxes of texts")
    findings += [f"'{text}' is not seen" for (text, _), s in zip(boxes, seen) if not s]
    return findings


def in_dark(svg: str) -> str:
    return re.sub(r"@media\(prefers-color-scheme:dark\)\{(.*)\}</style>", r"\1</style>", svg)


def main(source: str, pictures: list[str]) -> int:
    widths = read_widths(open(source).read())
    num_findings = 0
    for path in pictures:
        light = open(path).read()
        for name, svg in ("light", light), ("dark", in_dark(light)):
            findings = findings_of(svg, widths)
            num_findings += len(findings)
            for finding in findings[:5]:
                print(f"{path}, {name}: {finding}")
    print(f"{len(pictures)} pictures, {num_findings} findings")
    return num_findings > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
