"""Makes the site: reads the tree's Markdown, writes a folder. tools/site is the command."""
import argparse
import json
import pathlib
import re
import string
import subprocess
import sys

from convert import GLOSSARY, Converter, Hints, Links, with_classes, with_frame
from course import (EVERYDAY, GROUPS, PHRASES, CourseError, escape, html_of, introduced, is_inside, read_glossary, read_letters,
                    read_pages, read_strip, relative, with_anchors)

HERE = pathlib.Path(__file__).resolve().parent
MARK = "made_by_tools_site.txt"

# The interactive pictures: in which lessons each is shown, and with which setting.
PLAY = {
    "schedules": {"08": "schedule=1f1b&p=4&m=8", "16": "schedule=zb-v&p=4&m=8"},
    "collectives": {"00": "algorithm=ring&n=4"},
    "attention": {"14": "slices=zigzag&n=4"},
    "memory": {"03": "lesson=03_zero1&n=8", "04": "lesson=04_zero2&n=8", "05": "lesson=05_zero3&n=8"},
}


def origin_of(root):
    """The address of the files on the forge that the clone came from, or ""."""
    asked = subprocess.run(["git", "-C", root, "remote", "get-url", "origin"], capture_output=True, text=True)
    # No user or password, which may stand before the host.
    remote = re.fullmatch(r"(?:https://|ssh://|git@)(?:[^@/]*@)?([\w.-]+)[:/](.+?)(?:\.git)?/?", asked.stdout.strip())
    return f"https://{remote[1]}/{remote[2]}/blob/HEAD" if remote else ""


class Site:
    """All files of the site, in memory: nothing is written before everything is right."""

    def __init__(self, root, sources, play):
        self.root, self.files = root, {}
        self.pages = read_pages(root)
        by_source = {page.source: page for page in self.pages}
        self.links = Links(root, by_source, sources)
        self.glossary = read_glossary(html_of(by_source[GLOSSARY].text))
        self.names = {name: anchor for anchor, names, _ in self.glossary for name in names}
        self.names |= dict.fromkeys(EVERYDAY | PHRASES)
        self.letters = read_letters(by_source["notes/conventions.md"].text)
        self.template = string.Template((HERE / "page.html").read_text(encoding="utf-8"))
        self.play = {path.stem: path for path in sorted(play.glob("*.html"))} if play else {}
        self.search = []
        for page in self.pages:
            self.files[page.path] = self.page_of(page).encode()
        self.add_files()

    def letters_of(self, page):
        """A page's own, else its lesson's, else those of the table of all that it introduces."""
        story = self.links.pages.get(page.folder + "/README.md")
        return introduced(self.letters, page.text) | (read_strip(story.text) if story else {}) | read_strip(page.text)

    def page_of(self, page):
        source = with_classes(html_of(page.text))
        is_glossary = page.source == GLOSSARY
        if is_glossary:
            source = with_anchors(source)
        hints = Hints(self.letters_of(page), {} if is_glossary else self.names,
                      relative("notes/glossary.html", page.path))
        converted = Converter(page, self.links, hints).convert(source)
        name = page.title if page.group == "For looking up" else page.name
        self.search += [[page.path, name, section.anchor, section.heading, section.text]
                        for section in converted.sections if section.text]
        return self.template.substitute(
            title=escape(page.title if page.source != "README.md" else "A course in distributed training"),
            root=relative(".", page.path) + "/",
            kind=page.group.lower().replace(" ", "-"),
            chapters=self.chapters_of(page),
            contents=self.contents_of(converted.headings),
            body=self.with_play(page, converted.body),
            around=self.around(page))

    @staticmethod
    def contents_of(headings):
        items = "".join(f'<li class="level{level}"><a href="#{anchor}">{text}</a></li>'
                        for level, anchor, text in headings if level in (2, 3))
        return f"<p>On this page</p><ul>{items}</ul>" if items else ""

    def with_play(self, page, body):
        number = page.name[:2]
        if page.group != "Lessons" or not page.source.endswith("README.md"):
            return body
        for name, lessons in PLAY.items():
            if name not in self.play or number not in lessons:
                continue
            title = escape(self.play_title(name))
            address = f"{relative(f'play/{name}.html', page.path)}#{escape(lessons[number])}"
            body = with_frame(body, f'<figure class="play"><iframe src="{address}" title="{title}" loading="lazy">'
                                    f'</iframe><figcaption><a href="{address}">{title}, on a page of its own</a>'
                                    "</figcaption></figure>")
        return body

    def play_title(self, name):
        return re.search(r"<title>(.*?)</title>", self.play[name].read_text(encoding="utf-8"))[1]

    def chapters_of(self, page):
        """The list of chapters; of the groups to look things up in, only the page's own is open.

        The bugs are listed on the pages of the zoo alone: they would be half of every page's list.
        """
        parts = []
        for group in GROUPS:
            links = [(p.path, p.name, p is page) for p in self.pages if p.group == group
                     and (page.folder == "zoo" or p.folder != "zoo" or p.source == "zoo/README.md")]
            parts.append(self.group_of_links(page, group, links, group in ("Ladder", "Lessons", page.group)))
            if group == "Lessons" and self.play:
                links = [(f"play/{name}.html", self.play_title(name), False) for name in self.play]
                parts.append(self.group_of_links(page, "Pictures that move", links, False))
        return "".join(parts)

    @staticmethod
    def group_of_links(page, group, links, is_open):
        items = "".join(f'<li><a href="{relative(path, page.path)}"{" aria-current=page" * is_here}>{escape(name)}</a></li>'
                        for path, name, is_here in links)
        if group == "Ladder":
            return f"<ul>{items}</ul>"
        return f"<details{' open' * is_open}><summary>{group}</summary><ul>{items}</ul></details>"

    def around(self, page):
        """Links to the pages before and after it, and between a lesson's story and its reference page."""
        at = self.pages.index(page)
        links = []
        other = {"README.md": "reference.md", "reference.md": "README.md"}.get(page.source.rpartition("/")[2])
        partner = self.links.pages.get(f"{page.folder}/{other}")
        for kind, label, to in (
                ("before", "Before", self.pages[at - 1] if at > 0 else None),
                ("partner", "This lesson", partner),
                ("after", "Next", self.pages[at + 1] if at + 1 < len(self.pages) else None)):
            if to and not (kind != "partner" and to is partner):
                name = {"reference.md": "For looking up", "README.md": "The story"}.get(other) if kind == "partner" else to.name
                links.append(f'<a class="{kind}" href="{relative(to.path, page.path)}"><small>{label}</small>'
                             f'<span>{escape(name)}</span></a>')
        return "".join(links)

    def add_files(self):
        for file in ("site.css", "site.js"):
            self.files["assets/" + file] = (HERE / file).read_bytes()
        definitions = {anchor: definition for anchor, _, definition in self.glossary}
        self.files["assets/glossary.js"] = b"const GLOSSARY = " + json.dumps(definitions, ensure_ascii=False).encode() + b";\n"
        self.files["assets/search.js"] = b"const SEARCH = " + json.dumps(self.search, ensure_ascii=False).encode() + b";\n"
        for file in self.links.copied:
            self.files[file] = (self.root / file).read_bytes()
        for name, path in self.play.items():
            self.files[f"play/{name}.html"] = path.read_bytes()
        self.files[".nojekyll"] = b""  # GitHub Pages takes the files as they are


def write(output, files):
    """Writes the site. What is in the folder already stays, unless this tool has made it."""
    mark = output / MARK
    if output.exists() and not output.is_dir():
        raise CourseError(f"--output: {output} is no folder")
    if output.is_dir() and any(output.iterdir()) and not mark.is_file():
        raise CourseError(f"--output: {output} is not empty, and tools/site has not made it; name another folder")
    ours = [line for line in mark.read_text(encoding="utf-8").splitlines() if is_inside(output, output / line)] if mark.is_file() else []
    for path in files:
        if (output / path).exists() and path not in ours:
            raise CourseError(f"--output: {output / path} is there, and tools/site has not made it")
    output.mkdir(parents=True, exist_ok=True)
    mark.write_text("".join(path + "\n" for path in sorted({*ours, *files})), encoding="utf-8")
    for path, content in files.items():
        (output / path).parent.mkdir(parents=True, exist_ok=True)
        (output / path).write_bytes(content)
    for path in set(ours) - set(files):
        (output / path).unlink(missing_ok=True)
        for parent in list((output / path).parents):
            if parent == output or not parent.is_dir() or any(parent.iterdir()):
                break
            parent.rmdir()
    mark.write_text("".join(path + "\n" for path in sorted(files)), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(prog="tools/site", allow_abbrev=False)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--sources")
    parser.add_argument("--play", type=pathlib.Path)
    options = parser.parse_args()
    sources = options.sources if options.sources is not None else origin_of(options.root)
    try:
        site = Site(options.root, sources.rstrip("/"), options.play)
        write(options.output, site.files)
    except CourseError as error:
        print(f"tools/site: {error}", file=sys.stderr)
        return 2
    size = sum(len(content) for content in site.files.values())
    print(f"{len(site.pages)} pages, {size / 1e6:.1f} MB: {options.output}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
