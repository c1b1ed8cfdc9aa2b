// What a page does: search, hints at words and letters, light and dark. It asks no server, so it
// works in a folder on disk, too. Without it everything can still be read.
"use strict";

const root = document.body.dataset.root;
const header = document.querySelector("header");

// --- Light and dark: the system's choice, until the reader makes one. ---

header.querySelector(".scheme").addEventListener("click", () => {
  const chosen = document.documentElement.dataset.scheme;
  const isDark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const next = isDark ? "light" : "dark";
  document.documentElement.dataset.scheme = next;
  try { localStorage.setItem("ladder scheme", next); } catch {}
});

// --- Search ---

const input = header.querySelector("input");
const found = document.getElementById("found");

// The texts of all pages are loaded at the first search: [path, page, anchor, heading, text].
let loading, sections;
function load() {
  loading ??= new Promise((resolve) => {
    const script = document.createElement("script");
    script.src = root + "assets/search.js";
    script.onload = () => {
      sections = SEARCH.flatMap(([path, page, all]) => all.map((section) => [path, page, ...section]));
      resolve();
    };
    document.head.append(script);
  });
  return loading;
}

// A word is found where one begins: "ring" in "rings" and not in "training".
const patternOf = (words) => new RegExp(
  "(?<![\\p{L}\\d])(" + words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|") + ")", "giu");

function scoreOf([, page, , heading, text], patterns) {
  let score = heading.toLowerCase() === input.value.trim().toLowerCase() ? 100 : 0; // a word of the glossary
  for (const pattern of patterns) {
    const times = (where) => (where.match(pattern) || []).length;
    const points =
      30 * Math.min(1, times(heading)) + 15 * Math.min(1, times(page)) + Math.min(5, times(text));
    if (points === 0) return 0;
    score += points;
  }
  return score;
}

// The text around the first word, with all words marked.
function excerptOf(text, pattern) {
  const first = Math.max(0, text.search(pattern));
  const begin = first < 60 ? 0 : text.lastIndexOf(" ", first - 50) + 1;
  const end = begin + 180;
  const excerpt = (begin > 0 ? "… " : "") + text.slice(begin, end) + (text.length > end ? " …" : "");
  const line = document.createElement("span");
  excerpt.split(pattern).forEach((part, i) => { // every second part is a word
    const element = document.createElement(i % 2 === 1 ? "mark" : "span");
    element.textContent = part;
    line.append(element);
  });
  return line;
}

async function search() {
  const words = input.value.trim().split(/\s+/).filter(Boolean);
  found.hidden = words.length === 0;
  if (found.hidden) return;
  await load();
  const patterns = words.map((word) => patternOf([word]));
  const hits = sections.map((section) => [scoreOf(section, patterns), section])
    .filter(([score]) => score > 0).sort((a, b) => b[0] - a[0]).slice(0, 25);
  found.replaceChildren(...hits.map(([, [path, page, anchor, heading, text]]) => {
    const link = document.createElement("a");
    link.href = root + path + (anchor && "#" + anchor);
    const title = document.createElement("b");
    title.textContent = page + (heading && heading !== page && anchor ? " › " + heading : "");
    link.append(title, document.createElement("br"), excerptOf(text, patternOf(words)));
    return link;
  }));
  if (hits.length === 0) found.innerHTML = "<p>Nothing found. Each word must be on the page.</p>";
  found.scrollTop = 0;
}

input.addEventListener("focus", load, { once: true });
input.addEventListener("input", search);
header.querySelector(".search").addEventListener("keydown", (event) => {
  const links = [...found.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  if (event.key === "Escape") { found.hidden = true; input.focus(); }
  if (event.key === "Enter" && at < 0 && links[0] && !found.hidden) links[0].click();
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    (links[at + (event.key === "ArrowDown" ? 1 : -1)] || input).focus();
  }
});
document.addEventListener("click", (event) => { if (!event.target.closest(".search")) found.hidden = true; });
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, textarea, select")) return;
  event.preventDefault();
  input.focus();
});

// --- Hints: what a word of the glossary or a letter means, at the pointer, the focus or a touch. ---

const hint = document.createElement("div");
hint.id = "hint";
hint.setAttribute("role", "tooltip");
hint.hidden = true;
document.body.append(hint);

for (const letter of document.querySelectorAll("abbr[title]")) {
  letter.dataset.meaning = letter.title;
  letter.removeAttribute("title"); // else the browser shows it a second time
}

function meaningOf(element) {
  if (element.dataset.meaning) {
    const text = document.createElement("span");
    text.textContent = `${element.textContent}: ${element.dataset.meaning}`;
    return text.innerHTML;
  }
  const [page, anchor] = (element.getAttribute("href") || "").split("#");
  return page.endsWith("notes/glossary.html") || page === "glossary.html" ? GLOSSARY[anchor] : undefined;
}

function tell(event) {
  const element = event.target.closest?.("abbr, article a");
  const meaning = element && meaningOf(element);
  if (!meaning) return;
  hint.innerHTML = meaning;
  hint.hidden = false;
  element.setAttribute("aria-describedby", "hint");
  const box = element.getClientRects()[0];
  const left = Math.min(box.left, document.documentElement.clientWidth - hint.offsetWidth - 16);
  const isBelow = box.bottom + hint.offsetHeight + 8 < innerHeight || box.top < hint.offsetHeight + 8;
  hint.style.left = `${scrollX + Math.max(16, left)}px`;
  hint.style.top = `${scrollY + (isBelow ? box.bottom + 6 : box.top - hint.offsetHeight - 6)}px`;
}

function untell() {
  hint.hidden = true;
  document.querySelector("[aria-describedby=hint]")?.removeAttribute("aria-describedby");
}

document.addEventListener("mouseover", tell);
document.addEventListener("focusin", tell);
document.addEventListener("click", (event) => { untell(); tell(event); }); // where there is no pointer
document.addEventListener("mouseout", untell);
document.addEventListener("focusout", untell);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") untell(); });

// --- What scrolls by itself can be reached by keyboard; frames are as high as what they show. ---

for (const box of document.querySelectorAll("pre, .wide")) {
  if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
}
addEventListener("message", (event) => {
  const frame = [...document.querySelectorAll("iframe")].find((f) => f.contentWindow === event.source);
  if (frame && Number.isFinite(event.data?.height)) frame.style.height = `${event.data.height + 2}px`;
});
