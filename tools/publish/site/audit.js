// What is wrong with the page that is open: check.py runs this in each page, at several widths and in
// both schemes. Returns sentences.
"use strict";

function brightness([red, green, blue]) { // relative luminance, WCAG 2
  const linear = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear(red / 255) + 0.7152 * linear(green / 255) + 0.0722 * linear(blue / 255);
}

function contrast(one, other) {
  const [low, high] = [brightness(one), brightness(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

const numbersOf = (colour) => colour.match(/[\d.]+/g).map(Number);

// The background that is seen behind an element.
const backgrounds = new Map();
function backgroundOf(element) {
  if (!element) return [255, 255, 255];
  if (!backgrounds.has(element)) {
    const colour = numbersOf(getComputedStyle(element).backgroundColor);
    const isClear = colour.length === 4 && colour[3] === 0;
    backgrounds.set(element, isClear ? backgroundOf(element.parentElement) : colour);
  }
  return backgrounds.get(element);
}

// Text that is hard to read.
function paleTexts() {
  backgrounds.clear();
  const found = new Set();
  const checked = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || checked.has(element) || element.closest("script, [hidden]")) continue;
    checked.add(element);
    const style = getComputedStyle(element);
    if (style.opacity === "0" || !element.getClientRects().length) continue;
    const ratio = contrast(numbersOf(style.color), backgroundOf(element));
    if (!(ratio >= 4.5)) {
      const tag = `<${element.tagName.toLowerCase()} class="${element.className}">`;
      found.add(`contrast ${ratio.toFixed(2)} of ${tag}: ${node.data.trim().slice(0, 40)}`);
    }
  }
  return [...found];
}

// What makes the whole page scroll sideways.
function tooWide() {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const guilty = [...document.querySelectorAll("body *")].find((element) =>
    element.getBoundingClientRect().right > width + 1 && !element.closest("pre, .wide, .picture"));
  const text = guilty?.textContent.trim().slice(0, 40);
  return [`wider than ${width} pixels: <${guilty?.tagName.toLowerCase()}> ${text}`];
}

// Folded answers: each has a name, is closed, opens by a click, and has something inside.
function badFolds() {
  const found = [];
  for (const fold of document.querySelectorAll("article details")) {
    const name = fold.firstElementChild;
    if (name?.tagName !== "SUMMARY" || !name.textContent.trim()) {
      found.push("a fold without a name");
      continue;
    }
    if (fold.open) found.push(`open from the beginning: ${name.textContent}`);
    name.click();
    if (!fold.open || fold.getBoundingClientRect().height < 2 * name.getBoundingClientRect().height) {
      found.push(`a fold does not open, or is empty: ${name.textContent}`);
    }
  }
  return found;
}

async function badPictures() {
  const found = [];
  for (const picture of document.images) {
    await picture.decode().catch(() => {});
    if (!picture.naturalWidth) found.push(`no picture: ${picture.src}`);
    if (!picture.alt) found.push(`no text in place of ${picture.src}`);
  }
  return found;
}

// Marks of Markdown that nobody has converted.
function leftovers() {
  const found = [];
  for (const element of document.querySelectorAll("article :is(p, li, td, h1, h2, h3)")) {
    const copy = element.cloneNode(true);
    copy.querySelectorAll("code").forEach((code) => code.remove());
    if (/```|\|---|\*\*|\]\(|<\/?details/.test(copy.textContent)) {
      found.push(`not converted: ${copy.textContent.trim().slice(0, 60)}`);
    }
  }
  return found;
}
