"""Turns what GitHub's converter makes of a page into the page of the site.

Text, order and meaning stay. Links lead to pages of the site or to the sources, headings get GitHub's
anchors, code gets colours, and words and letters of the course get their meaning.
"""
import html
import posixpath
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

from pygments.lexers import get_lexer_by_name
from pygments.token import Token
from pygments.util import ClassNotFound

from course import CourseError, escape, relative, slug_of

VOID = {"br", "hr", "img", "input"}
# Text inside these is left as it is.
UNTOUCHED = {"a", "code", "pre", "summary", "h1", "h2", "h3", "h4", "h5", "h6"}
INLINE = {"a", "code", "em", "strong", "del", "sup", "sub"}
GLOSSARY = "notes/glossary.md"


@dataclass
class Links:
    """Where links lead: to pages, to files that are copied, or to the sources elsewhere."""
    pages: dict    # Page by source
    sources: str   # address of the tree's files, or "" where nobody knows one
    copied: set = field(default_factory=set)  # pictures that pages show

    def resolve(self, page, target):
        """The address to use instead, or None for a file that is nowhere on the web."""
        if re.match(r"[a-z]+:", target):
            return target
        path, _, anchor = target.partition("#")
        file = posixpath.normpath(posixpath.join(page.folder, path)) if path else page.source
        found = self.pages.get(file) or self.pages.get(posixpath.join(file, "README.md"))
        if found:
            to = relative(found.path, page.path) if found is not page or not anchor else ""
            return to + ("#" + anchor if anchor else "")
        if file.endswith(".svg"):
            self.copied.add(file)
            return relative(file, page.path)
        return f"{self.sources}/{file}" if self.sources else None


def spelled(letter):
    """A letter that stands alone. It may follow a digit (3C), but not in 1F1B, and "5 s" are seconds."""
    no_rate = "(?<!/)" if letter == "s" else ""  # GB/s
    return (rf"(?<![A-Za-z_'’.\-^])(?<!\d\d)(?<![A-Za-z.]\d)(?<!\d ){no_rate}{re.escape(letter)}"
            r"(?![\w'’]|\+\+|\.\w|-\w)")


class Hints:
    """The words and letters to explain on one page: a word once, a letter everywhere."""

    def __init__(self, letters, names, glossary):
        """`names`: anchors in the page `glossary`, or None for what gets no hint."""
        self.letters, self.glossary, self.seen = letters, glossary, set()
        # ZeRO is not zero: a name with capitals is spelled exactly so.
        self.exact = {name: anchor for name, anchor in names.items() if name != name.lower()}
        self.loose = {name: anchor for name, anchor in names.items() if name == name.lower()}
        patterns = ["(?!)"]  # nothing
        if letters:
            patterns.append(f"(?P<letter>{self._any(letters, spelled)})")
        if names:
            patterns.append(rf"(?<![\w/.-])(?P<word>{self._any(names, re.escape)})(?:e?s)?(?![\w/]|[-.]\w)")
        self.pattern = re.compile("|".join(patterns), re.IGNORECASE)

    @staticmethod
    def _any(words, pattern_of):
        return "|".join(pattern_of(word) for word in sorted(words, key=len, reverse=True))

    def add_to(self, text):
        out, at = [], 0
        for match in self.pattern.finditer(text):
            hint = self._hint(match)
            if hint:
                out += [escape(text[at:match.start()]), hint]
                at = match.end()
        return "".join(out) + escape(text[at:])

    def _hint(self, match):
        found = escape(match[0])
        groups = match.groupdict()
        if groups.get("letter"):
            meaning = self.letters.get(match[0])  # by case: T is not t
            return meaning and f'<abbr title="{html.escape(meaning)}">{found}</abbr>'
        word = match["word"]
        anchor = self.exact.get(word) or self.loose.get(word.lower())
        if anchor is None or anchor in self.seen:
            return None
        self.seen.add(anchor)
        return f'<a class="term" href="{self.glossary}#{anchor}">{found}</a>'


# What has a colour: all else in code is plain.
COLOURS = {Token.Comment: "c", Token.Keyword: "k", Token.Operator.Word: "k", Token.Literal.String: "s",
           Token.Literal.Number: "m", Token.Name.Function: "f", Token.Name.Class: "f",
           Token.Generic.Inserted: "gi", Token.Generic.Deleted: "gd", Token.Generic.Heading: "c",
           Token.Generic.Subheading: "c"}


def coloured(code, language):
    try:
        lexer = get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return escape(code)
    parts = []
    for kind, text in lexer.get_tokens(code):
        name = next((name for parent, name in COLOURS.items() if kind in parent), None)
        parts.append(f'<span class="{name}">{escape(text)}</span>' if name else escape(text))
    return "".join(parts)


@dataclass
class Section:
    """What the search knows of a page, from one heading to the next."""
    anchor: str
    heading: str
    text: str = ""


class Converter(HTMLParser):
    """Reads one page. Afterwards `body` is its HTML, `headings` are (level, anchor, HTML of the text)."""

    def __init__(self, page, links, hints):
        super().__init__(convert_charrefs=True)
        self.page, self.links, self.hints = page, links, hints
        self.out, self.open = [], []
        self.headings, self.sections = [], [Section("", page.title)]
        self.code = self.language = None  # of the block that is being read
        self.heading_at = None            # where its HTML begins in `out`
        self.is_dead = []                 # of each open link: does it lead nowhere?
        self.num_folds = 0                # open around what is being read
        self.is_strip = False             # the line of symbols, which explains letters itself

    def convert(self, source):
        self.feed(source)
        self.close()
        self.body = "".join(self.out)
        for section in self.sections:
            section.text = " ".join(section.text.split())
        return self

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "pre":
            self.code, self.language = "", ""
        elif tag == "code" and self.code is not None:
            self.language = attrs.get("class", "").removeprefix("language-")
        elif tag == "a":
            self._begin_link(attrs)
        elif tag == "img":
            self._add_picture(attrs)
        elif re.fullmatch(r"h[1-6]", tag):
            self.heading_at = len(self.out)
        else:
            self._begin(tag, attrs)

    def _begin(self, tag, attrs):
        self.num_folds += tag == "details"
        self.is_strip = attrs.get("class") == "symbols"
        if tag == "table":
            self.out.append('<div class="wide">')
        if tag == "p" and self.page.source == GLOSSARY and "id" in attrs:
            self.sections.append(Section(attrs["id"], ""))  # the name follows
        text = "".join(f' {name}="{html.escape(value or "")}"' for name, value in attrs.items())
        self.out.append(f"<{tag}{text}>")

    def _begin_link(self, attrs):
        href = self.links.resolve(self.page, attrs.get("href", ""))
        self.is_dead.append(href is None)
        self.out.append("" if href is None else f'<a href="{html.escape(href)}">')

    def _add_picture(self, attrs):
        source = html.escape(self.links.resolve(self.page, attrs["src"]) or "")
        alt = html.escape(" ".join(attrs.get("alt", "").split()))
        # A phone shows it small: the link opens it alone.
        self.out.append(f'<a class="picture" href="{source}"><img src="{source}" alt="{alt}"></a>')

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        self.open.pop()
        if tag == "pre":
            self.out.append(f"<pre><code>{coloured(self.code, self.language)}</code></pre>")
            self._note(self.code)
            self.code = None
        elif tag == "code" and self.code is not None:
            pass
        elif tag == "a":
            self.out.append("" if self.is_dead.pop() else "</a>")
        elif self.heading_at is not None and re.fullmatch(r"h[1-6]", tag):
            self._end_heading(tag)
        else:
            self.num_folds -= tag == "details"
            self.out.append(f"</{tag}>" + ("</div>" if tag == "table" else ""))
        if tag not in INLINE:
            self._note(" ")

    def _end_heading(self, tag):
        inner = "".join(self.out[self.heading_at:])
        del self.out[self.heading_at:]
        text = html.unescape(re.sub(r"<[^>]+>", "", inner))
        anchor = base = slug_of(text)
        number = 0
        while any(anchor == other for _, other, _ in self.headings):
            number += 1
            anchor = f"{base}-{number}"
        self.headings.append((int(tag[1]), anchor, re.sub(r"</?a[^>]*>", "", inner)))
        if tag != "h1":
            self.sections.append(Section(anchor, text))
        link = f'<a class="anchor" href="#{anchor}" aria-label="Link to this section">#</a>'
        self.out.append(f'<{tag} id="{anchor}">{inner}{"" if tag == "h1" else link}</{tag}>')
        self.heading_at = None

    def handle_data(self, data):
        if self.code is not None:
            self.code += data
            return
        if UNTOUCHED.isdisjoint(self.open) and not self.is_strip:
            self.out.append(self.hints.add_to(data))
        else:
            self.out.append(escape(data))
        if not self.sections[-1].heading:
            self.sections[-1].heading = data
        self._note(data)

    def handle_comment(self, data):
        pass

    def _note(self, text):
        """For the search, which must not give away what is folded."""
        if self.num_folds == 0 and self.heading_at is None:
            self.sections[-1].text += text


def with_classes(source):
    """Paragraphs that are more than text."""
    source = source.replace("<p>Symbols: ", '<p class="symbols">Symbols: ', 1)
    return source.replace("<p><strong>Predict.</strong>", '<p class="predict"><strong>Predict.</strong>')


def with_frame(body, frame):
    """The page with an interactive picture at the end of the section "The picture"."""
    picture = body.find('<h2 id="the-picture">')
    after = body.find("<h2 ", picture + 1)
    if picture < 0 or after < 0:
        raise CourseError("an interactive picture has no section 'The picture', with another one after it")
    return body[:after] + frame + body[after:]
