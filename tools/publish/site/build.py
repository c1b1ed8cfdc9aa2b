"""Makes the site: reads the tree's Markdown, writes a folder. tools/site is the command."""
import argparse
import json
import pathlib
import re
import shutil
import string
import subprocess
import sys

import course
from convert import GLOSSARY, Converter, Hints, Links, with_classes, with_frame
from course import CourseError, escape, html_of, relative

HERE = pathlib.Path(__file__).resolve().parent
MARK = "made_by_tools_site.txt"  # in the folder of a site: the names of its files

# The interactive pictures: in which lessons each is shown, and with which setting.
PLAY = {
    "schedules": {"08": "schedule=1f1b&p=4&m=8", "16": "schedule=zb-v&p=4&m=8"},
    "collectives": {"00": "algorithm=ring&n=4"},
    "attention": {"14": "slices=zigzag&n=4"},
    "memory": {"03": "lesson=03&n=8", "04": "lesson=04&n=8", "05": "lesson=05&n=8"},
}


def origin_of(root):
    """The address of the files on the forge that the clone came from, or ""."""
    if not shutil.which("git"):
        return ""
    asked = subprocess.run(["git", "-C", root, "remote", "get-url", "origin"],
                           capture_output=True, text=True)
    # No user or password, which may stand before the host.
    remote = re.fullmatch(r"(?:https://|ssh://|git@)(?:[^@/]*@)?([\w.-]+)[:/](.+?)(?:\.git)?/?",
                          asked.stdout.strip())
    return f"https://{remote[1]}/{remote[2]}/blob/HEAD" if remote else ""


class Site:
    """All files of the site, in memory: nothing is written before everything is right."""

    def __init__(self, root, sources, play):
        self.root, self.files, self.search = root, {}, []
        self.pages = course.read_pages(root)
        by_source = {page.source: page for page in self.pages}
        self.links = Links(by_source, sources)
        self.glossary = course.read_glossary(html_of(by_source[GLOSSARY].text))
        self.names = {name: anchor for anchor, names, _ in self.glossary for name in names}
        self.names |= dict.fromkeys(course.EVERYDAY | course.PHRASES)
        self.letters = course.read_letters(by_source["notes/conventions.md"].text)
        self.template = string.Template((HERE / "page.html").read_text(encoding="utf-8"))
        self.play = {file.stem: file for file in sorted(play.glob("*.html"))} if play else {}
        for page in self.pages:
            self.files[page.path] = self.html_of(page).encode()
        self.add_files()

    def html_of(self, page):
        source = with_classes(html_of(page.text))
        names = self.names
        if page.source == GLOSSARY:
            source, names = course.with_anchors(source), {}
        hints = Hints(self.letters_of(page), names, relative("notes/glossary.html", page.path))
        converted = Converter(page, self.links, hints).convert(source)
        name = page.title if page.group == course.REFERENCES else page.name
        self.search.append([page.path, name, [[section.anchor, section.heading, section.text]
                                              for section in converted.sections if section.text]])
        return self.template.substitute(
            title=escape(page.title if page.source != "README.md" else "A course in distributed training"),
            root=relative(".", page.path) + "/",
            chapters=self.chapters_of(page),
            contents=contents_of(converted.headings),
            body=self.with_play(page, converted.body),
            around=self.around(page))

    def letters_of(self, page):
        """A page's own, else its lesson's, else those of the table of all that it introduces."""
        story = self.links.pages.get(page.folder + "/README.md")
        letters = course.introduced(self.letters, page.text)
        return letters | (course.read_strip(story.text) if story else {}) | course.read_strip(page.text)

    def with_play(self, page, body):
        number = page.name[:2]
        if page.group != "Lessons" or not page.source.endswith("README.md"):
            return body
        for name, lessons in PLAY.items():
            if name in self.play and number in lessons:
                title = escape(self.play_title(name))
                address = f"{relative(f'play/{name}.html', page.path)}#{escape(lessons[number])}"
                body = with_frame(body, f'<figure class="play"><iframe src="{address}" title="{title}" '
                                        f'loading="lazy"></iframe><figcaption><a href="{address}">{title}, '
                                        "on a page of its own</a></figcaption></figure>")
        return body

    def play_title(self, name):
        return re.search(r"<title>(.*?)</title>", self.play[name].read_text(encoding="utf-8"))[1]

    def chapters_of(self, page):
        """The list of chapters; of the groups to look things up in, only the page's own is open.

        The bugs are listed on the zoo's first page alone: they would be half of every page's list. A
        bug's own page lists that bug; the one before and the next are beside it. A lesson leads to its
        reference page, so only reference pages list them all.
        """
        zoo = "zoo/README.md"
        parts = []
        for group in course.GROUPS:
            if group == course.REFERENCES != page.group:
                continue
            links = [(p.path, p.name) for p in self.pages if p.group == group
                     and (p.folder != "zoo" or zoo in (p.source, page.source) or p is page)]
            is_open = group in ("Lessons", page.group)
            parts.append(group_of_links(page, "" if group == "Ladder" else group, links, is_open))
            if group == "Lessons" and self.play:
                links = [(f"play/{name}.html", self.play_title(name)) for name in self.play]
                parts.append(group_of_links(page, "Pictures that move", links, False))
        return "".join(parts)

    def around(self, page):
        """Links to the pages before and after it, and between a lesson's story and its reference page."""
        at = self.pages.index(page)
        before = self.pages[at - 1] if at > 0 else None
        after = self.pages[at + 1] if at + 1 < len(self.pages) else None
        partners = {"README.md": ("reference.md", course.REFERENCES), "reference.md": ("README.md", "The story")}
        file, name = partners.get(page.source.rpartition("/")[2], ("", ""))
        partner = self.links.pages.get(f"{page.folder}/{file}")
        links = [("before", "Before", before, before and before.name),
                 ("partner", "This lesson", partner, name),
                 ("after", "Next", after, after and after.name)]
        return "".join(
            f'<a class="{kind}" href="{relative(to.path, page.path)}"><small>{label}</small>'
            f"<span>{escape(name)}</span></a>"
            for kind, label, to, name in links if to and (kind == "partner" or to is not partner))

    def add_files(self):
        """Everything but pages."""
        for file in ("site.css", "site.js", "icon.svg"):
            self.files["assets/" + file] = (HERE / file).read_bytes()
        definitions = {anchor: definition for anchor, _, definition in self.glossary}
        # Scripts, because a page on disk may not fetch data.
        for name, value in (("glossary", definitions), ("search", self.search)):
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            self.files[f"assets/{name}.js"] = f"const {name.upper()} = {text};\n".encode()
        for file in self.links.copied:
            self.files[file] = (self.root / file).read_bytes()
        for name, file in self.play.items():
            self.files[f"play/{name}.html"] = file.read_bytes()
        self.files[".nojekyll"] = b""  # GitHub Pages takes the files as they are


def contents_of(headings):
    """The list of a page's sections."""
    items = "".join(f'<li class="level{level}"><a href="#{anchor}">{text}</a></li>'
                    for level, anchor, text in headings if level in (2, 3))
    return f"<p>On this page</p><ul>{items}</ul>" if items else ""


def group_of_links(page, title, links, is_open):
    """Links (path, name) for the list of chapters of a page; foldable where they have a title."""
    items = "".join(f'<li><a href="{relative(path, page.path)}"{" aria-current=page" * (path == page.path)}>'
                    f"{escape(name)}</a></li>" for path, name in links)
    if not title:
        return f"<ul>{items}</ul>"
    return f"<details{' open' * is_open}><summary>{title}</summary><ul>{items}</ul></details>"


def write(output, files):
    """Writes the site. What is in the folder already stays, unless this tool has made it."""
    mark = output / MARK
    if output.exists() and not output.is_dir():
        raise CourseError(f"--output: {output} is no folder")
    if output.is_dir() and any(output.iterdir()) and not mark.is_file():
        raise CourseError(f"--output: {output} is not empty, and tools/site has not made it; "
                          "name another folder")
    listed = mark.read_text(encoding="utf-8").splitlines() if mark.is_file() else []
    ours = {path for path in listed if course.is_inside(output, output / path)}
    for path in files:
        if (output / path).exists() and path not in ours:
            raise CourseError(f"--output: {output / path} is there, and tools/site has not made it")
    output.mkdir(parents=True, exist_ok=True)
    # First, so that a run that is ended here leaves nothing that the next one does not know.
    mark.write_text("".join(path + "\n" for path in sorted(ours | set(files))), encoding="utf-8")
    for path, content in files.items():
        (output / path).parent.mkdir(parents=True, exist_ok=True)
        (output / path).write_bytes(content)
    for path in ours - set(files):
        remove(output, output / path)
    mark.write_text("".join(path + "\n" for path in sorted(files)), encoding="utf-8")


def remove(output, file):
    """Removes a file, and the folders below `output` that are empty then."""
    file.unlink(missing_ok=True)
    for folder in file.parents:
        if folder == output or not folder.is_dir() or any(folder.iterdir()):
            return
        folder.rmdir()


def main():
    parser = argparse.ArgumentParser(prog="tools/site", allow_abbrev=False)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--sources", help="where links to code lead; by default the clone's origin")
    parser.add_argument("--play", type=pathlib.Path, help="the folder of the interactive pictures")
    options = parser.parse_args()
    sources = origin_of(options.root) if options.sources is None else options.sources
    try:
        site = Site(options.root, sources.rstrip("/"), options.play)
        write(options.output, site.files)
    except (CourseError, OSError) as error:
        print(f"tools/site: {error}", file=sys.stderr)
        return 2
    size = sum(len(content) for content in site.files.values())
    print(f"{len(site.pages)} pages, {size / 1e6:.1f} MB: {options.output}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
