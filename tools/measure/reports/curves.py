"""Reports that train a model in several ways: their flags, and a picture of the losses."""
import math
import pathlib

import reports

# Of the curves, on a light and on a dark page.
COLOURS = [("#222222", "#dddddd"), ("#1f77b4", "#4da3dd"), ("#7fb8e0", "#a5d0ee"),
           ("#d62728", "#ee6a6b"), ("#ff9e4a", "#ffb676"), ("#f2a0a1", "#f4b9ba"),
           ("#9467bd", "#b394d3"), ("#2ca02c", "#4fbf4f"), ("#98df8a", "#b5e8aa")]


def options_of(doc, folder, *more, sets=()):
    """The command line: which of the sets, steps, a folder, which is made, and more whole numbers
    (name, default, help)."""
    parser = reports.parser_of(doc)
    if sets:
        parser.add_argument("set", choices=sets)
    for name, default, text in (("--steps", 300, "of each run"), *more):
        parser.add_argument(name, type=int, default=default, help=text)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(folder))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    return options


def smooth(values, width=8):
    return [sum(values[max(0, i - width):i + 1]) / len(values[max(0, i - width):i + 1])
            for i in range(len(values))]


def style_of(num_curves):
    """Of a picture that looks as those of common/io/svg.cc do, for light pages and for dark ones."""
    light, dark = ("".join(f".c{i}{{fill:{colours[page]};color:{colours[page]}}}"
                           for i, colours in enumerate(COLOURS[:num_curves])) for page in (0, 1))
    return ("<style>text{font-family:sans-serif;fill:#222}line{stroke:#222;stroke-opacity:0.2}"
            f".page{{fill:#fff}}{light}"
            "polyline.edge{fill:none;stroke:currentColor;stroke-width:1.5}"
            "@media(prefers-color-scheme:dark){text{fill:#ddd}line{stroke:#ddd}"
            f".page{{fill:#0d1117}}{dark}}}</style>")


def draw(curves, options):
    """Draws the losses, averaged over 8 steps, as FOLDER/losses.svg, and says so."""
    steps, width, height, left, top, legend = options.steps, 450, 360, 34, 44, 226
    highest = 6.0
    lowest = min(min(curve) for curve in curves.values() if curve) - 0.1
    x = lambda step: left + step / steps * width
    y = lambda loss: top + (highest - min(loss, highest)) / (highest - lowest) * height
    text = lambda x, y, anchor, words, size=13, more="": (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{more}>{words}'
        "</text>")
    right, bottom = left + width + legend, top + height + 40
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right} {bottom}" '
             f'width="{right}">', style_of(len(curves)),
             f'<rect class="page" x="0" y="0" width="{right}" height="{bottom}"/>',
             text(10, 24, "start", "training loss in nats", 15, ' font-weight="bold"')]
    for loss in range(math.ceil(lowest), int(highest) + 1):
        lines += [f'<line x1="{left}" y1="{y(loss):.1f}" x2="{left + width}" y2="{y(loss):.1f}"/>',
                  text(left - 8, y(loss) + 4, "end", loss)]
    for i, (name, curve) in enumerate(curves.items()):
        colour, below = f"c{i % len(COLOURS)}", top + 20 * i
        points = " ".join(f"{x(step + 1):.1f},{y(loss):.1f}"
                          for step, loss in enumerate(smooth(curve)))
        lines += [f'<polyline class="{colour} edge" points="{points}"/>',
                  f'<rect class="{colour}" x="{left + width + 12}" y="{below}" width="12" '
                  'height="12"/>', text(left + width + 29, below + 11, "start", name)]
    lines += [text(left + width / 2, top + height + 28, "middle", f"{steps} steps"), "</svg>"]
    picture = options.folder / "losses.svg"
    picture.write_text("\n".join(lines) + "\n")
    print(f"\nloss curves: {picture}")
