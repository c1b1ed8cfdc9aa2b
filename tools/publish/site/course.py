"""Which pages the course has, in which order, and what its words and letters mean."""
import html
import pathlib
import posixpath
import re
import subprocess
import unicodedata
from dataclasses import dataclass

# Where Markdown files lie; all else in the root is the reader's own.
FOLDERS = ("lessons", "notes", "kernels", "common", "tools", "zoo")

# Words that get no hint, though the glossary has them: they are also everyday words, or have a second
# meaning in this course, so a hint would often say something wrong. And phrases around such a word.
EVERYDAY = {"alpha", "beta", "capacity", "group", "half of backward", "header", "launch", "norm", "reduce",
            "round", "row", "tree", "unit", "use", "walk"}
PHRASES = {"file block", "other moments", "thread block"}


class CourseError(Exception):
    """What a person can mend: a missing program or file, a folder that is not ours."""


@dataclass
class Page:
    source: str  # lessons/08_pipeline_parallel/README.md
    path: str    # lessons/08_pipeline_parallel/index.html
    text: str    # Markdown
    title: str   # Lesson 08: pipeline parallelism
    group: str
    name: str = ""  # in lists of pages: 08 pipeline parallelism

    @property
    def folder(self):
        return posixpath.dirname(self.source)


def group_of(source):
    folder, name = posixpath.split(source)
    if source == "README.md":
        return "Ladder"
    if folder.startswith("lessons/"):
        return REFERENCES if name == "reference.md" else "Lessons"
    return {"notes": "Notes", "zoo": "Try yourself"}.get(folder, "The code")


REFERENCES = "For looking up"
GROUPS = ("Ladder", "Lessons", REFERENCES, "Notes", "The code", "Try yourself")


def order_of(page):
    """A lesson's other chapters stand before its story: the model's before lesson 01."""
    is_story = page.source.endswith("/README.md")
    key = {"Lessons": (page.folder, is_story, page.source), "Notes": (page.title,),
           "Try yourself": (page.folder, not is_story, page.source)}
    return GROUPS.index(page.group), key.get(page.group, (page.source,))


def read_pages(root):
    """All pages in the order of the course."""
    sources = [root / "README.md"]
    for folder in FOLDERS:
        sources += (root / folder).rglob("*.md")
    pages = []
    for file in sources:
        source = file.relative_to(root).as_posix()
        text = file.read_text(encoding="utf-8")
        heading = re.match(r"# (.+)\n", text)
        if not heading:
            raise CourseError(f"{source} does not begin with a heading")
        path = re.sub(r"(^|/)README\.md$", r"\1index.md", source)[:-3] + ".html"
        pages.append(Page(source, path, text, heading[1].replace("`", ""), group_of(source)))
    pages += puzzles(root)
    titles = {page.source: page.title for page in pages}
    for page in pages:  # a reference page has the name of its story
        title = titles.get(page.folder + "/README.md") if page.group == REFERENCES else page.title
        page.name = re.sub(r"^(Lesson )?(\d+):", r"\2", title)
    return sorted(pages, key=order_of)


def puzzles(root):
    """One page with all puzzles, if there are any: what stands in their files, and at the head of the tool."""
    files = sorted(root.glob("lessons/*/puzzles/*.cc"))
    if not files:
        return []
    tool = (root / "tools/puzzle").read_text(encoding="utf-8")
    about = re.search(r"^# (.+?)\n#\n", tool, re.MULTILINE | re.DOTALL)[1].replace("\n# ", " ")
    text = "".join(puzzle(file.read_text(encoding="utf-8")) for file in files)
    return [Page("tools/puzzle", "puzzles.html", f"# Puzzles\n\n{about}\n\n{text}", "Puzzles", "Try yourself")]


def puzzle(source):
    """Markdown of a puzzle: the comment at the beginning is its title and its contract."""
    comment, code = re.match(r"((?://[^\n]*\n)+)(.*)", source, re.DOTALL).groups()
    parts = re.sub(r"^// ?", "", comment, flags=re.MULTILINE).split("`")
    parts[::2] = [re.sub(r"[*_<\[\]]", r"\\\g<0>", part) for part in parts[::2]]  # it is no Markdown
    title, _, contract = "`".join(parts).partition("\n")
    contract = contract.replace("\nExample:", "\n\nExample:")
    code = re.sub(r"#include.*\n", "", code).strip()
    return f"## {title}\n{contract}\n```cpp\n{code}\n```\n\n`tools/puzzle {title.split()[0]}`\n\n"


def html_of(markdown):
    """GitHub's own converter, so that a page means the same here and there."""
    command = ["cmark-gfm", "--unsafe", "-e", "table", "-e", "autolink", "-e", "strikethrough"]
    return subprocess.run(command, input=markdown, capture_output=True, text=True, encoding="utf-8",
                          check=True).stdout


def slug_of(heading):
    """GitHub's anchor of a heading: "Run it: how?" has "run-it-how". It drops ², which \\w has."""
    kept = (c for c in heading.lower() if c in "- " or unicodedata.category(c)[0] in "LM" or
            unicodedata.category(c) in ("Nd", "Pc"))
    return "".join(kept).replace(" ", "-")


# --- Words ---

_DEFINITION = re.compile(r"<p><strong>(.+?)</strong>(.*?)</p>", re.DOTALL)


def words_of_entry(bold, rest):
    """All names of an entry: "chunk, model chunk: ..." and "dtype (data type): ..." have two."""
    names = bold.split(", ")
    others = re.match(r"( \((?!of )(?P<meaning>[^)]+)\))?(, (?P<list>[^:]+))?:", rest)
    if others:
        names += [others["meaning"]] if others["meaning"] else []
        names += others["list"].split(", ") if others["list"] else []
    return [re.sub(r"<[^>]+>", "", name) for name in names]


def read_glossary(glossary_html):
    """Returns (anchor, names, definition as HTML) of each entry, in the page's order."""
    entries, seen = [], set()
    for bold, rest in _DEFINITION.findall(glossary_html):
        anchor = slug_of(bold)
        while anchor in seen:  # "overlap" has two entries
            anchor += "-1"
        seen.add(anchor)
        definition = re.sub(r"</?a[^>]*>", "", f"<strong>{bold}</strong>{rest}")
        entries.append((anchor, words_of_entry(bold, rest), definition.replace("\n", " ")))
    return entries


def with_anchors(glossary_html):
    """The glossary's page, where each entry can be linked to."""
    anchors = (entry[0] for entry in read_glossary(glossary_html))
    return _DEFINITION.sub(
        lambda m: f'<p id="{next(anchors)}"><strong>{m[1]}</strong>{m[2]}</p>', glossary_html)


# --- Letters ---

def read_letters(conventions):
    """The table of letters in notes/conventions.md."""
    letters = {}
    for names, meaning in re.findall(r"^\| ([A-Za-z, ]+) \| ([^|]+) \|$",
                                     conventions.partition("## Words")[0], re.MULTILINE):
        letters |= {name: meaning.strip() for name in names.split(", ") if name != "letter"}
    return letters


def read_strip(markdown):
    """The letters of a page's line "Symbols: N ranks, C hidden size": each is a letter and a meaning."""
    strip = re.search(r"^Symbols: (.+?)\n\n", markdown, re.MULTILINE | re.DOTALL)
    if not strip:
        return {}
    parts = re.split(r",\s+(?![^(]*\))", strip[1].replace("\n", " "))
    return {letter: meaning for letter, _, meaning in (part.partition(" ") for part in parts)}


def introduced(letters, markdown):
    """Of the table's letters those that a page introduces: "s bytes", "P is the number of parameters".

    Elsewhere a letter may be something else: B is half of backward, V a shape, s are seconds.
    """
    def is_introduced(letter, meaning):
        words = "|".join(word for word in re.findall(r"[\w-]+", meaning) if len(word) > 3)
        spelled = rf"(?<![\w'’]){letter}(?![\w'’])"
        return re.search(rf"{spelled}(\s\w+){{0,4}}?\s({words})|({words})\s{spelled}", markdown)
    return {letter: meaning for letter, meaning in letters.items() if is_introduced(letter, meaning)}


def escape(text):
    return html.escape(text, quote=False)


def relative(path, start):
    """The link from a page to another file of the site."""
    return posixpath.relpath(path, posixpath.dirname(start) or ".")


def is_inside(folder, path):
    return pathlib.Path(path).resolve().is_relative_to(pathlib.Path(folder).resolve())
