"""The functions of tools/publish/site, on pages of a few lines."""
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, "tools/publish/site")

import build
import check
import convert
import course
from browser import PROGRAM, Browser, BrowserError
from course import Page

STORY = """# Lesson 08: pipelines

Symbols: p stages, C hidden size (of one token, in numbers), s bytes of a number

## The picture

A bubble costs p - 1 boxes. Another bubble.

![boxes](../../notes/pictures/boxes.svg)

1. A question?
   <details><summary>Answer</summary>

   ```cpp
   if (p < 3) return;
   ```

   | a | b |
   |---|--:|
   | 1 | `x` |
   </details>

## The picture

[Up](../../README.md), [words](../../notes/glossary.md#bubble), [code](schedules.cc), [folder](../../zoo)
"""
TREE = {
    "README.md": "# Ladder\n\n[08](lessons/08_pipes)\n",
    "lessons/08_pipes/README.md": STORY,
    "lessons/08_pipes/model.md": "# The model\n\n[out](https://example.org)\n",
    "lessons/08_pipes/reference.md": "# Lesson 08: reference\n\np times C\n",
    "lessons/08_pipes/schedules.cc": "",
    "notes/glossary.md": "# Glossary\n\n**bubble**: idle time,\nsee stage.\n\n**overlap**: one.\n\n"
                         "**overlap**: two.\n\n**use**: a verb.\n",
    "notes/conventions.md": "# Conventions\n\n| letter | meaning |\n|---|---|\n| T | tokens |\n| p | parts |\n\n"
                            "## Words\n",
    "notes/pictures/boxes.svg": "<svg/>",
    "tools/puzzle": "#!/bin/sh\n# Five minutes:\n# write it.\n#\n#   tools/puzzle list\n",
    "lessons/08_pipes/puzzles/1.cc": "// 08.1 The way\n//\n// With f<T>, at `in_x`.\n// Example: a[i] * 2.\n"
                                     "#include <x>\n\nint f(int p) {\n}\n",
    "zoo/README.md": "# The bug zoo\n",
    "zoo/01_a.md": "# 01: All wait\n",
}


def plant(root, tree):
    for path, text in tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


class SiteTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "tree"
        plant(self.root, TREE)

    def site(self, sources="https://forge/blob", play=None):
        return build.Site(self.root, sources, play)

    def page(self, path, **options):
        return self.site(**options).files[path].decode()

    def test_order_and_names(self):
        pages = course.read_pages(self.root)
        self.assertEqual([(page.path, page.name) for page in pages], [
            ("index.html", "Ladder"),
            ("lessons/08_pipes/model.html", "The model"),
            ("lessons/08_pipes/index.html", "08 pipelines"),
            ("lessons/08_pipes/reference.html", "08 pipelines"),
            ("notes/conventions.html", "Conventions"),
            ("notes/glossary.html", "Glossary"),
            ("puzzles.html", "Puzzles"),
            ("zoo/index.html", "The bug zoo"),
            ("zoo/01_a.html", "01 All wait")])

    def test_a_page_without_heading_is_refused(self):
        plant(self.root, {"notes/x.md": "text\n"})
        with self.assertRaisesRegex(course.CourseError, "notes/x.md does not begin"):
            course.read_pages(self.root)

    def test_links(self):
        page = self.page("lessons/08_pipes/index.html")
        for address in ("../../index.html", "../../notes/glossary.html#bubble", "../../zoo/index.html",
                        "https://forge/blob/lessons/08_pipes/schedules.cc", "../../notes/pictures/boxes.svg"):
            self.assertIn(f'href="{address}"', page)
        self.assertIn('href="lessons/08_pipes/index.html">08</a>', self.page("index.html"))
        self.assertIn('<a href="https://example.org">out</a>', self.page("lessons/08_pipes/model.html"))

    def test_a_link_to_code_is_text_where_no_forge_is_known(self):
        page = self.page("lessons/08_pipes/index.html", sources="")
        self.assertIn(", code, ", page)
        self.assertNotIn("schedules.cc", page)

    def test_blocks_inside_a_fold_in_a_list(self):
        page = self.page("lessons/08_pipes/index.html")
        self.assertIn("<p>A question?</p>\n<details><summary>Answer</summary>\n<pre>", page)
        self.assertIn('<pre><code><span class="k">if</span> (p &lt; <span class="m">3</span>) ', page)
        self.assertIn('<td align="right"><code>x</code></td>', page)

    def test_slugs_are_those_of_the_forge(self):
        for heading, slug in (("Run it: how?", "run-it-how"), ("`sum` of 2, or 3?", "sum-of-2-or-3"),
                              ("1F1B and GPipe, measured", "1f1b-and-gpipe-measured"),
                              ("A - B", "a---b"), ("12 C² parameters", "12-c-parameters"), ("a_b", "a_b")):
            self.assertEqual(course.slug_of(heading), slug)
        page = self.page("lessons/08_pipes/index.html")
        self.assertIn('<h2 id="the-picture">', page)
        self.assertIn('<h2 id="the-picture-1">', page)

    def test_words_once_letters_always(self):
        page = self.page("lessons/08_pipes/index.html")
        article = page[page.index("<article>"):]
        link = '<a class="term" href="../../notes/glossary.html#bubble">bubble</a>'
        self.assertEqual(article.count(link), 1)
        self.assertIn('costs <abbr title="stages">p</abbr> - 1', article)
        self.assertIn('<p class="symbols">Symbols: p stages, C hidden', article)
        reference = self.page("lessons/08_pipes/reference.html")  # has the letters of its story
        self.assertIn('<abbr title="stages">p</abbr> times '
                      '<abbr title="hidden size (of one token, in numbers)">C</abbr>', reference)

    def test_words_with_capitals_are_spelled_so(self):
        names = {"ZeRO": "zero", "bubble": "bubble", "moments": "moments", "other moments": None}
        hints = convert.Hints({}, names, "g")
        for text in ("zero, zeroes", "h.bubble.x", "bubble-free", "at other moments"):
            self.assertEqual(hints.add_to(text), text)
        self.assertEqual(hints.add_to("Bubbles"), '<a class="term" href="g#bubble">Bubbles</a>')
        self.assertEqual(hints.add_to("ZeRO"), '<a class="term" href="g#zero">ZeRO</a>')
        self.assertEqual(hints.add_to("both moments"), 'both <a class="term" href="g#moments">moments</a>')

    def test_words_without_hint_are_in_the_glossary(self):
        glossary = pathlib.Path("notes/glossary.md").read_text(encoding="utf-8")
        entries = course.read_glossary(course.html_of(glossary))
        names = {name for _, names, _ in entries for name in names}
        self.assertLessEqual(course.EVERYDAY, names)
        self.assertTrue(all(any(name in phrase for name in names) for phrase in course.PHRASES))

    def test_everyday_words_have_no_hint(self):
        plant(self.root, {"zoo/01_a.md": "# 01: All wait\n\nWe use a bubble.\n"})
        self.assertIn('We use a <a class="term"', self.page("zoo/01_a.html"))

    def test_letters_stand_alone(self):
        hints = convert.Hints({"s": "bytes", "B": "sequences", "C": "hidden", "m": "micro-batches"}, {}, "")
        for text in ("5 s", "rank's", "C++", "GB/s of", "plain-C", "m.x", "C'", "ms", "1F1B", "175B", "x^m"):
            self.assertEqual(hints.add_to(text), text)
        self.assertEqual(hints.add_to("(m C s)").count("<abbr"), 3)
        self.assertEqual(hints.add_to("c < 3C"), 'c &lt; 3<abbr title="hidden">C</abbr>')

    def test_letters_of_the_table_count_where_a_page_introduces_them(self):
        for text, known in (("T tokens", "T"), ("T is the number of tokens", "T"), ("of p parts, p is", "p"),
                            ("number T", ""), ("T x T scores, and then all of the many tokens", "")):
            self.assertEqual("".join(course.introduced({"T": "tokens in a sequence", "p": "parts"}, text)), known, text)

    def test_names_of_an_entry(self):
        for bold, rest, names in (
                ("chunk", ", model chunk, virtual stage: one of", ["chunk", "model chunk", "virtual stage"]),
                ("dtype", " (data type): the", ["dtype", "data type"]),
                ("capacity", " (of an expert): the", ["capacity"]),
                ("alpha, beta", ": the two", ["alpha", "beta"]),
                ("master parameters", " (<em>masters</em>): a", ["master parameters", "masters"])):
            self.assertEqual(course.words_of_entry(bold, rest), names)

    def test_glossary_has_anchors_and_definitions(self):
        self.assertIn('<p id="bubble"><strong>bubble</strong>: idle time,', self.page("notes/glossary.html"))
        script = self.site().files["assets/glossary.js"].decode()
        self.assertIn('"bubble":"<strong>bubble</strong>: idle time, see stage."', script)
        self.assertIn('<p id="overlap-1"><strong>overlap</strong>: two.', self.page("notes/glossary.html"))
        self.assertNotIn('class="term"', self.page("notes/glossary.html"))

    def test_search_does_not_tell_answers(self):
        sections = [[path, page, *section] for path, page, all_of_page in self.site().search
                    for section in all_of_page]
        self.assertIn(["lessons/08_pipes/index.html", "08 pipelines", "the-picture", "The picture",
                       "A bubble costs p - 1 boxes. Another bubble. A question?"], sections)
        self.assertFalse(any("return" in section[4] for section in sections))
        self.assertIn(["notes/glossary.html", "Glossary", "bubble", "bubble", "bubble: idle time, see stage."],
                      sections)

    def test_interactive_pictures(self):
        play = self.root / "play"
        plant(play, {"schedules.html": "<title>Schedules</title>", "memory.html": "<title>Memory</title>"})
        page = self.page("lessons/08_pipes/index.html", play=play)
        frame = page.index('<iframe src="../../play/schedules.html#schedule=1f1b&amp;p=4&amp;m=8"')
        self.assertLess(page.index('<h2 id="the-picture">'), frame)
        self.assertLess(frame, page.index('<h2 id="the-picture-1">'))
        self.assertEqual(page.count("<iframe"), 1)
        self.assertIn('<a href="play/memory.html">Memory</a>', self.page("index.html", play=play))
        self.assertNotIn("<iframe", self.page("lessons/08_pipes/reference.html", play=play))

    def test_neighbours(self):
        page = self.page("lessons/08_pipes/index.html")
        self.assertIn('<a class="before" href="model.html">', page)
        self.assertIn('<a class="partner" href="reference.html">', page)
        self.assertNotIn('<a class="after"', page)  # it would be the partner
        self.assertIn('<a class="before" href="index.html"><small>Before</small><span>The bug zoo',
                      self.page("zoo/01_a.html"))

    def test_bugs_are_listed_in_the_zoo_alone(self):
        self.assertNotIn("01_a.html", self.page("index.html"))
        self.assertIn('<a href="01_a.html">01 All wait</a>', self.page("zoo/index.html"))

    def test_puzzles_are_one_page(self):
        page = self.page("puzzles.html")
        for part in ('<h1 id="puzzles">Puzzles</h1>\n<p>Five minutes: write it.</p>', '<h2 id="081-the-way">08.1 The way',
                     "<p>With f&lt;T&gt;, at <code>in_x</code>.</p>\n<p>Example: a[i] * 2.</p>\n<pre><code>"
                     '<span class="k">int</span> <span class="f">f</span>', "<p><code>tools/puzzle 08.1</code></p>"):
            self.assertIn(part, page)
        self.assertNotIn("include", page)

    def test_the_forge_is_the_clones_origin(self):
        def origin(url):
            git = self.root / ".git"
            plant(self.root, {".git/HEAD": "ref: refs/heads/main\n", ".git/objects/x": "", ".git/refs/x": "",
                              ".git/config": f'[remote "origin"]\n\turl = {url}\n'})
            self.assertTrue(git.is_dir())
            return build.origin_of(self.root)
        self.assertEqual(origin("https://github.com/a/b.git"), "https://github.com/a/b/blob/HEAD")
        self.assertEqual(origin("git@github.com:a/b.git"), "https://github.com/a/b/blob/HEAD")
        self.assertEqual(origin("https://me:secret@host.org/a/b"), "https://host.org/a/b/blob/HEAD")
        self.assertEqual(origin("../elsewhere"), "")


class WriteTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "site"

    def files(self):
        return sorted(file.relative_to(self.folder).as_posix()
                      for file in self.folder.rglob("*") if file.is_file())

    def refused(self, what, files):
        before = self.files() if self.folder.is_dir() else None
        with self.assertRaisesRegex(course.CourseError, what):
            build.write(self.folder, files)
        if before is not None:
            self.assertEqual(self.files(), before)

    def test_what_is_no_longer_made_is_removed_and_nothing_else(self):
        build.write(self.folder, {"a/b/c.html": b"1", "d.html": b"2"})
        plant(self.folder, {"CNAME": "course.org", "a/mine.txt": "x"})
        build.write(self.folder, {"d.html": b"3"})
        self.assertEqual(self.files(), ["CNAME", "a/mine.txt", "d.html", build.MARK])
        self.assertFalse((self.folder / "a/b").exists())
        self.assertEqual((self.folder / "d.html").read_bytes(), b"3")

    def test_the_folder_of_somebody_else_is_refused(self):
        plant(self.folder, {"thesis.tex": "x"})
        self.refused("is not empty, and tools/site has not made it", {"index.html": b""})

    def test_the_file_of_somebody_else_is_refused(self):
        build.write(self.folder, {"a.html": b"1"})
        plant(self.folder, {"b.html": "mine"})
        self.refused("b.html is there, and tools/site has not made it", {"a.html": b"2", "b.html": b"2"})
        self.assertEqual((self.folder / "b.html").read_text(), "mine")
        self.assertEqual((self.folder / "a.html").read_bytes(), b"1")

    def test_a_mark_that_names_files_elsewhere_removes_none(self):
        outside = self.folder.parent / "outside.txt"
        build.write(self.folder, {"a.html": b"1"})
        plant(self.folder, {build.MARK: f"a.html\n../outside.txt\n{outside}\n"})
        outside.write_text("mine")
        build.write(self.folder, {})
        self.assertTrue(outside.is_file())

    def test_a_file_is_no_folder(self):
        self.folder.write_text("x")
        self.refused("is no folder", {})


class CheckTest(unittest.TestCase):
    """The checker of the site finds what is wrong."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def wrong(self, **pages):
        outlines = {}
        for name, text in pages.items():
            plant(self.folder, {name + ".html": text})
            outlines[name + ".html"] = check.Outline(text)
        return check.wrong_links(self.folder, outlines)

    def test_links(self):
        self.assertEqual(self.wrong(a='<a href="b.html#x">', b='<p id="x"><a href="https://example.org">'), [])
        self.assertEqual(self.wrong(a='<a href="b.html#y">', b=""), ["a.html: b.html#y: no such anchor"])
        self.assertEqual(self.wrong(a='<a href="#x">'), ["a.html: #x: no such anchor"])
        self.assertEqual(self.wrong(a='<iframe src="b.html#n=4">', b=""), [])
        self.assertEqual(self.wrong(a='<iframe src="c.html#n=4">'), ["a.html: c.html#n=4: no such file"])
        self.assertEqual(self.wrong(a='<img src="c.svg">'), ["a.html: c.svg: no such file"])

    def test_loads_from_other_hosts(self):
        for tag in ('<img src="https://h/x">', '<script src="http://h/x">', '<link href="https://h/x">',
                    '<iframe src="https://h/x">'):
            self.assertEqual(len(self.wrong(a=tag)), 1, tag)

    def test_blocks_are_counted_in_markdown(self):
        self.assertEqual(check.blocks_in(STORY), {"pre": 1, "table": 1, "details": 1})
        self.assertEqual(check.blocks_in("````\n```\n|---|\n````\n```\n```\n"),
                         {"pre": 2, "table": 0, "details": 0})

    def test_blocks_that_are_lost(self):
        page = Page("a.md", "a.html", "```\nx\n```\n", "A", "Notes")
        seen = check.Outline("<nav><pre></pre></nav><article><p>``` x ```</p></article>")
        self.assertEqual(check.lost_blocks([page], {"a.html": seen}), ["a.html: 0 <pre>, and 1 in a.md"])
        self.assertEqual(check.lost_blocks([page], {"a.html": check.Outline("<article><pre>")}), [])


@unittest.skipUnless(shutil.which(PROGRAM), "no browser")
class BrowserTest(unittest.TestCase):
    """What check.py sees in a browser, on pages that have one fault each."""

    HEAD = ('<meta name="viewport" content="width=device-width"><style>:root { color-scheme: light dark }'
            "body { background: light-dark(#fff, #000) }</style>")
    FAULTS = {
        "pale": ('<p style="color: #999">pale</p>', "contrast 2.85 of <p class=\"\">: pale"),
        "dark": ('<p style="color: light-dark(#000, #333)">x</p>', "contrast"),
        "wide": ('<p style="width: 500px">wide</p>', "wider than 360 pixels: <p> wide"),
        "no_name": ("<details><p>x</p></details>", "a fold without a name"),
        "no_inside": ("<details><summary>Answer</summary></details>", "does not open, or is empty: Answer"),
        "open": ("<details open><summary>Answer</summary><p>x</p><p>y</p></details>", "open from the beginning"),
        "no_picture": ('<img src="gone.svg" alt="x">', "no picture:"),
        "no_alt": ('<img src="a.svg">', "no text in place of"),
        "fence": ("<p>```cpp x ```</p>", "not converted: ```cpp"),
    }

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        plant(self.folder, {"a.svg": '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'})

    def test_faults(self):
        audit = pathlib.Path("tools/publish/site/audit.js").read_text(encoding="utf-8")
        with Browser() as browser:
            pages = {"well": ('<p>x</p><img src="a.svg" alt="x">', ""), **self.FAULTS}
            for name, (body, finding) in pages.items():
                plant(self.folder, {name + ".html": f"{self.HEAD}<article>{body}</article>"})
                found = check.look_at(browser, self.folder, name + ".html", audit)
                self.assertEqual(bool(found), bool(finding), (name, found))
                self.assertIn(finding, "".join(found))

    def test_other_hosts_and_scripts_that_fail(self):
        plant(self.folder, {"a.html": '<img src="https://example.org/x.png"><script>null.x</script>'})
        with Browser() as browser:
            browser.open((self.folder / "a.html").as_uri())
            self.assertEqual(browser.foreign, ["https://example.org/x.png"])
            self.assertTrue(any("TypeError" in error for error in browser.errors), browser.errors)

    def test_a_browser_that_ends(self):
        with self.assertRaises(BrowserError), Browser() as browser:
            browser._process.kill()
            browser.evaluate("1")


if __name__ == "__main__":
    unittest.main()
