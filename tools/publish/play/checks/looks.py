"""What all pages must be: readable in both schemes, on a phone too, by keyboard, small, and named."""
from pathlib import Path

from checks.page import Page

MOST_BYTES = 500_000

# Text in pictures whose contrast with what lies below it is under 4.5. Faded text is what a reader has stepped over.
PALE_LABELS = """
(() => {
  const under = (text) => {
    const box = text.getBoundingClientRect();
    const below = document.elementsFromPoint(box.x + box.width / 2, box.y + box.height / 2)
      .find((e) => e !== text && ["rect", "path"].includes(e.tagName) && getComputedStyle(e).fill !== "none" && getComputedStyle(e).fillOpacity > 0);
    return below ? numbersOf(getComputedStyle(below).fill) : backgroundOf(document.body);
  };
  const found = [];
  for (const text of document.querySelectorAll("svg text")) {
    if (text.closest(".later")) continue;
    text.scrollIntoView({block: "center", inline: "center"});
    const ratio = contrast(numbersOf(getComputedStyle(text).fill), under(text));
    if (!(ratio >= 4.5)) found.push(`contrast ${ratio.toFixed(2)} of "${text.textContent}" in a picture`);
  }
  return [...new Set(found)];
})()
"""

# Controls that nobody can name.
NAMELESS = """[...document.querySelectorAll("input, button, [tabindex], svg")].filter((e) => !e.closest("[hidden]") &&
  !(e.getAttribute("aria-label") || e.closest("label")?.textContent.trim() || e.textContent.trim())).map((e) => e.outerHTML)"""


def check(page: Page) -> None:
    size = page.file.stat().st_size
    page.expect(size <= MOST_BYTES, True, f"{size} bytes")
    audit_text = (Path(__file__).parents[2] / "site/audit.js").read_text(encoding="utf-8")
    for scheme in ("light", "dark"):
        page.browser.set_scheme(scheme)
        for width in (320, 760, 1360):
            page.browser.set_size(width, 900, is_phone=width < 500)
            page.open()
            where = f"{scheme}, {width} pixels"
            wide = page.value("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            page.expect(wide, 0, f"{where}: pixels to scroll sideways")
            page.expect(page.value(f"(() => {{ {audit_text}; return paleTexts().concat({PALE_LABELS.strip()}); }})()"), [], where)
    page.expect(page.value(NAMELESS), [], "controls without a name")
    page.expect(page.text("title") != "", True, "a title")
    page.browser.set_scheme("light")
    page.browser.set_size(1200, 900)
    keyboard(page)


def keyboard(page: Page) -> None:
    """Tab reaches every control, and the focus is seen."""
    page.open()
    wanted = page.value("""[...document.querySelectorAll("input[type=range], input:checked, button:not([disabled]), summary, pre")]
        .filter((e) => !e.closest("details:not([open]) pre") && e.getClientRects().length && e.tabIndex >= 0).map((e) => e.outerHTML)""")
    seen = set()
    for _ in range(len(wanted) + 12):
        page.press("Tab")
        seen.add(page.value("document.activeElement.outerHTML"))
        page.expect(page.value("""(() => { const e = document.activeElement, style = (x) => getComputedStyle(x).outlineStyle;
            return e === document.body || style(e) !== "none" || [e.nextElementSibling, e.parentElement].some((x) => x && style(x) !== "none"); })()"""),
                    True, "the focus is seen")
    page.expect([control for control in wanted if control not in seen], [], "controls that Tab does not reach")
