"""Tests a site in a headless Chromium, as a reader with a folder on disk and without a network has it.

Each page, from file://: links and anchors lead somewhere, pictures load, folds open, text is dark or
light enough in both schemes, a phone of 360 pixels scrolls in one direction only, nothing asks another
host. Then by mouse and keyboard: search, hints, folds, schemes.
"""
import argparse
import json
import pathlib
import posixpath
import re
import shutil
import sys
import time
from html.parser import HTMLParser

from browser import PROGRAM, Browser, BrowserError
from course import read_pages

HERE = pathlib.Path(__file__).resolve().parent
MOST_BYTES = 5_000_000
PHONE, DESK = (360, 740), (1360, 900)


class Outline(HTMLParser):
    """What a page refers to, and what it has."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.in_article, self.counts = False, {}  # of the article's elements, by name
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.in_article |= tag == "article"
        if self.in_article:
            self.counts[tag] = self.counts.get(tag, 0) + 1
        self.anchors.add(attrs.get("id"))
        if tag == "a" and "href" in attrs:
            self.links.append(attrs["href"])
        elif tag in ("link", "script", "img", "iframe") and (attrs.get("src") or attrs.get("href")):
            self.loads.append(attrs.get("src") or attrs["href"])

    def handle_endtag(self, tag):
        self.in_article &= tag != "article"


def wrong_links(folder, outlines):
    """`outlines`: by path. Addresses elsewhere may only be links that a reader follows."""
    files = {file.relative_to(folder).as_posix() for file in folder.rglob("*")}
    findings = []
    for path, outline in outlines.items():
        for address in outline.links + outline.loads:
            if re.match(r"[a-z]+:", address):
                if address in outline.loads and not address.startswith("data:"):
                    findings.append(f"{path}: loads {address}")
                continue
            file, _, anchor = address.partition("#")
            to = posixpath.normpath(posixpath.join(posixpath.dirname(path), file)) if file else path
            if to not in files:
                findings.append(f"{path}: {address}: no such file")
            elif "=" in anchor:  # a setting of an interactive picture
                continue
            elif anchor and to in outlines and anchor not in outlines[to].anchors:
                findings.append(f"{path}: {address}: no such anchor")
    return findings


def blocks_in(markdown):
    """How many blocks of code, tables and folds a page has, counted in its Markdown line by line."""
    counts, fence = {"pre": 0, "table": 0, "details": 0}, None
    for line in markdown.splitlines():
        mark = re.match(r"\s*(`{3,})", line)
        if mark and fence is None:
            fence = mark[1]
            counts["pre"] += 1
        elif mark and mark[1].startswith(fence):
            fence = None
        elif fence is None:
            counts["table"] += bool(re.fullmatch(r"\s*\|( *:?-+:? *\|)+ *", line))
            counts["details"] += line.count("<details>")
    return counts


def lost_blocks(pages, outlines):
    """What Markdown has and the page does not: a fence in a list, a table in a fold."""
    findings = []
    for page in pages:
        counts = outlines[page.path].counts
        for tag, number in blocks_in(page.text).items():
            if counts.get(tag, 0) < number:  # an indented block is a <pre>, too
                findings.append(f"{page.path}: {counts.get(tag, 0)} <{tag}>, and {number} in {page.source}")
    return findings


def look_at(browser, folder, path, audit):
    """All that audit.js finds on one page."""
    browser.set_scheme("light")
    browser.set_size(*PHONE, is_phone=True)
    browser.open((folder / path).as_uri())
    found = browser.evaluate(f"""(async () => {{ {audit}
        return [...badFolds(), ...await badPictures(), ...tooWide(), ...leftovers(), ...paleTexts()]; }})()""")
    browser.set_size(*DESK)
    browser.set_scheme("dark")
    dark = browser.evaluate(f"(() => {{ {audit}; return [...tooWide(), ...paleTexts()]; }})()")
    found += [f"{what} (dark)" for what in dark]
    return [f"{path}: {what}" for what in found]


def expect(findings, condition, what):
    if not condition:
        findings.append(what)


def check_search(browser, findings):
    def search(words):
        browser.press("/")
        expect(findings, browser.evaluate("document.activeElement.matches('header input')"),
               "/ does not reach the search")
        browser.evaluate("document.activeElement.select()")
        browser.write(words)

    search("ring")
    browser.wait_for("document.querySelector('#found a')")
    links = browser.evaluate("[...document.querySelectorAll('#found a')].map((link) => link.href)")
    expect(findings, any("00_collectives" in link for link in links),
           f"search for ring does not find lesson 00: {links}")
    browser.press("ArrowDown")
    browser.press("Escape")
    expect(findings, browser.evaluate("document.querySelector('#found').hidden"),
           "Escape does not close the search")
    for words in ("ring nosuchwordatall", "aining"):  # all words, and from their beginning
        search(words)
        browser.wait_for("!document.querySelector('#found').hidden")
        expect(findings, browser.evaluate("!document.querySelector('#found a')"),
               f"search finds pages for '{words}'")
    search("ring")
    browser.wait_for("document.querySelector('#found a')")
    browser.press("ArrowDown")
    found = browser.evaluate("document.activeElement.pathname")
    browser.press("Enter")
    browser.wait_for(f"location.pathname === {json.dumps(found)} && document.readyState === 'complete'")


def check_hints(browser, findings):
    def hint():
        return browser.evaluate("document.querySelector('#hint:not([hidden])')?.textContent ?? ''")

    browser.move_to("article a.term[href$='#bubble']")
    expect(findings, "has nothing to do" in hint(), f"the hint at a word is not the glossary's: '{hint()}'")
    browser.move_to("h1")
    expect(findings, hint() == "", "a hint stays when the pointer goes")
    browser.move_to("article p:not(.symbols) > abbr[data-meaning='stages']")
    expect(findings, hint() == "p: stages", f"the hint at the letter p is '{hint()}'")
    browser.move_to("h1")
    browser.evaluate("document.querySelector('article a.term').focus()")
    expect(findings, hint() != "", "no hint at a word that the keyboard has reached")
    browser.press("Escape")
    expect(findings, hint() == "", "Escape does not close a hint")


def check_keyboard(browser, findings):
    """From the top of the page: only Tab and Enter."""
    browser.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    for _ in range(100):
        browser.press("Tab")
        if browser.evaluate("document.activeElement.matches('article summary')"):
            break
    else:
        findings.append("Tab does not reach a fold")
        return
    expect(findings, browser.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none",
           "the focus on a fold is not seen")
    browser.press("Enter")
    expect(findings, browser.evaluate("document.activeElement.parentElement.open"),
           "Enter does not open a fold")
    browser.press("Enter")
    expect(findings, not browser.evaluate("document.activeElement.parentElement.open"),
           "Enter does not close a fold")


def check_schemes(browser, findings):
    def is_dark():
        return browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"

    for scheme in ("dark", "light"):
        browser.set_scheme(scheme)
        expect(findings, is_dark() == (scheme == "dark"), f"the page is not {scheme} where the system is")
    browser.click("button.scheme")
    expect(findings, is_dark(), "the button does not turn light into dark")
    browser.call("Page.reload")
    browser.wait_for("document.readyState === 'complete'")
    expect(findings, is_dark(), "the choice of dark is forgotten")
    browser.click("button.scheme")
    browser.set_scheme("dark")
    expect(findings, not is_dark(), "the choice of light is forgotten where the system is dark")


def check_site(root, folder):
    findings = []
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    expect(findings, size <= MOST_BYTES, f"the site has {size} bytes, more than {MOST_BYTES}")
    paths = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*.html"))
    outlines = {path: Outline((folder / path).read_text(encoding="utf-8")) for path in paths}
    findings += wrong_links(folder, outlines) + lost_blocks(read_pages(root), outlines)
    audit = (HERE / "audit.js").read_text(encoding="utf-8")
    with Browser() as browser:
        for path in paths:
            if not path.startswith("play/"):  # they have a test of their own
                findings += look_at(browser, folder, path, audit)
        browser.set_size(*DESK)
        browser.open((folder / "index.html").as_uri())
        check_search(browser, findings)
        browser.open((folder / "lessons/08_pipeline_parallel/index.html").as_uri())
        check_hints(browser, findings)
        check_keyboard(browser, findings)
        check_schemes(browser, findings)
        findings += [f"asks another host: {address}" for address in browser.foreign]
        findings += [f"a script fails: {error}" for error in browser.errors]
    return findings, sum(len(outline.links) for outline in outlines.values()), len(paths)


def main():
    parser = argparse.ArgumentParser(prog="tools/site --check", allow_abbrev=False)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    if not shutil.which(PROGRAM):
        print(f"tools/site: {PROGRAM} is missing; tools/setup --site installs it", file=sys.stderr)
        return 2
    begin = time.monotonic()
    try:
        findings, num_links, num_pages = check_site(options.root, options.folder.resolve())
    except BrowserError as error:
        print(f"tools/site --check: {error}", file=sys.stderr)
        return 1
    for finding in findings:
        print(finding)
    print(f"{num_pages} pages, {num_links} links, {time.monotonic() - begin:.0f} s: "
          + (f"{len(findings)} findings" if findings else "all right"))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
