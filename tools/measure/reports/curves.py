"""Reports that train a model in several ways: their flags, and a picture of the losses."""
import math
import pathlib

import reports

COLOURS = ["#222222", "#1f77b4", "#7fb8e0", "#d62728", "#ff9e4a", "#f2a0a1", "#9467bd", "#2ca02c",
           "#98df8a"]


def options_of(doc, folder, *more):
    """The command line: steps, a folder, which is made, and more whole numbers (name, default, help)."""
    parser = reports.parser_of(doc)
    for name, default, text in (("--steps", 300, "of each run"), *more):
        parser.add_argument(name, type=int, default=default, help=text)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(folder))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    return options


def smooth(values, width=8):
    return [sum(values[max(0, i - width):i + 1]) / len(values[max(0, i - width):i + 1])
            for i in range(len(values))]


def draw(curves, options):
    """Draws the losses, averaged over 8 steps, as FOLDER/losses.svg, and says so."""
    steps, width, height, left, top = options.steps, 640, 360, 50, 20
    highest = 6.0
    lowest = min(min(curve) for curve in curves.values() if curve) - 0.1
    x = lambda step: left + step / steps * width
    y = lambda loss: top + (highest - min(loss, highest)) / (highest - lowest) * height
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 200}" '
             f'height="{top + height + 40}" font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>']
    for loss in range(math.ceil(lowest), int(highest) + 1):
        lines.append(f'<path d="M{left} {y(loss):.1f}h{width}" stroke="#dddddd"/>'
                     f'<text x="{left - 8}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss}</text>')
    for i, (name, curve) in enumerate(curves.items()):
        points = " ".join(f"{x(step + 1):.1f},{y(loss):.1f}"
                          for step, loss in enumerate(smooth(curve)))
        colour = COLOURS[i % len(COLOURS)]
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" '
                     f'stroke-width="1.5"/><text x="{left + width + 10}" y="{top + 16 * i + 12}" '
                     f'fill="{colour}">{name}</text>')
    lines.append(f'<text x="{left + width / 2}" y="{top + height + 28}" text-anchor="middle">'
                 f'training loss in nats over {steps} steps</text></svg>')
    picture = options.folder / "losses.svg"
    picture.write_text("\n".join(lines) + "\n")
    print(f"\nloss curves: {picture}")
