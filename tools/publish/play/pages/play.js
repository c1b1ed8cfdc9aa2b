"use strict";
// What the pages share: the C++ core, controls whose values stand in the address, steps, and SVG.

const $ = (selector) => document.querySelector(selector);

// ---- The core: tools/publish/play/exports.cc as WebAssembly, or nothing.

let core;

// Asks the core; exports.h lists the requests. Returns what it answers.
function ask(...words) {
  const request = new TextEncoder().encode(words.join(" "));
  const at = core.play_request(request.length);
  new Uint8Array(core.memory.buffer, at, request.length).set(request);
  const begin = core.play_answer();
  const memory = new Uint8Array(core.memory.buffer);
  return JSON.parse(new TextDecoder().decode(memory.subarray(begin, memory.indexOf(0, begin))));
}

// Returns the bytes that the page holds under this name: compressed, then as text.
async function embedded(id) {
  const packed = Uint8Array.from(atob($("#" + id).textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

// What C's library asks of a system. The core opens no files; it may only fail.
const system = new Proxy({}, {get: (_, name) => () => {
  if (name === "proc_exit") throw new Error("the core has ended");
  return 8;  // no such file
}});

async function loadCore() {
  const made = await WebAssembly.instantiate(await embedded("core"), {wasi_snapshot_preview1: system});
  core = made.instance.exports;
  core._initialize();
}

// ---- Elements

const kSvg = "http://www.w3.org/2000/svg";

// Makes an element in `parent`: make(parent, "p", {class: "soft"}, "text").
function make(parent, tag, attributes = {}, text = "") {
  const inSvg = tag === "svg" || parent.namespaceURI === kSvg;
  const element = inSvg ? document.createElementNS(kSvg, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== "") element.textContent = text;
  parent.append(element);
  return element;
}

const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
const percent = (share) => `${(100 * share).toFixed(1)} %`;
// At most three digits after the point.
const short = (number) => String(Number(number.toFixed(3)));

// ---- Settings: the values of all controls, by name. They stand in the address after "#".

const settings = {};
const controls = {};  // name: a function that shows a value
let onSetting = () => {};
let onWidth = () => {};  // when the window is wider or narrower than before

function readAddress() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

function set(name, value) {
  settings[name] = value;
  controls[name]?.(value);
  try {
    history.replaceState(null, "", "#" + new URLSearchParams(settings));
  } catch {
    // A page inside another one may have no address.
  }
  onSetting(name);
}

// Begins with what the address says of a control, if that is one of its values.
function first(name, values, value) {
  const given = readAddress()[name];
  return values.find((one) => String(one) === given) ?? value;
}

// Adds a choice between words: [[value, text], ...] or [value, ...].
function choice(name, title, options, value) {
  const pairs = options.map((one) => (Array.isArray(one) ? one : [one, String(one)]));
  const field = make($(".controls"), "fieldset", {class: "choice"});
  make(field, "legend", {}, title);
  const row = make(field, "div");
  const inputs = pairs.map(([one, text]) => {
    const label = make(row, "label");
    const input = make(label, "input", {type: "radio", name, value: one});
    make(label, "span", {}, text);
    input.addEventListener("change", () => set(name, one));
    return input;
  });
  controls[name] = (now) => inputs.forEach((input) => { input.checked = input.value === String(now); });
  settings[name] = first(name, pairs.map(([one]) => one), value);
  controls[name](settings[name]);
  return field;
}

// Adds a slider over these values, for the letter `symbol`; `show` writes one.
function slider(name, symbol, meaning, values, value, show = String) {
  const label = make($(".controls"), "label", {class: "slider"});
  const line = make(label, "span");
  const title = make(line, "span");
  if (symbol) make(title, "b", {}, symbol + " ");
  title.append(meaning);
  const output = make(line, "output");
  const input = make(label, "input", {type: "range", id: name, min: 0, max: values.length - 1, step: 1});
  input.addEventListener("input", () => set(name, values[input.value]));
  controls[name] = (now) => {
    input.value = values.indexOf(now);
    output.textContent = show(now);
    input.setAttribute("aria-valuetext", show(now));
  };
  settings[name] = first(name, values, value);
  controls[name](settings[name]);
  return label;
}

const range = (from, to, step = 1) =>
  Array.from({length: Math.floor((to - from) / step + 1.5)}, (_, i) => Number((from + i * step).toFixed(6)));

// ---- Steps: buttons, and the arrow keys wherever no control needs them.

// Adds the buttons to .steps. show(at) is called with a step from 0 to `last`, which may change.
function steps(noun, show) {
  const row = $(".steps");
  const button = (text, label, action) => {
    const made = make(row, "button", {type: "button", "aria-label": label, title: label}, text);
    made.addEventListener("click", action);
    return made;
  };
  const self = {at: 0, last: 0, timer: 0};
  self.go = (at) => {
    self.at = Math.max(0, Math.min(at, self.last));
    back.disabled = start.disabled = self.at === 0;
    next.disabled = end.disabled = self.at === self.last;
    say.textContent = show(self.at);
  };
  self.stop = () => {
    clearInterval(self.timer);
    self.timer = 0;
    play.textContent = "play";
  };
  const byHand = (at) => {
    self.stop();
    self.go(at);
  };
  const start = button("⇤", "first " + noun, () => byHand(0));
  const back = button("←", "the " + noun + " before", () => byHand(self.at - 1));
  const play = button("play", "play or pause", () => {
    if (self.timer) return self.stop();
    if (self.at === self.last) self.go(0);
    play.textContent = "pause";
    self.timer = setInterval(() => (self.at < self.last ? self.go(self.at + 1) : self.stop()), 650);
  });
  const next = button("→", "next " + noun, () => byHand(self.at + 1));
  const end = button("⇥", "last " + noun, () => byHand(self.last));
  const say = make(row, "p", {class: "say", "aria-live": "polite"});
  const keys = {ArrowLeft: () => byHand(self.at - 1), ArrowRight: () => byHand(self.at + 1),
                Home: () => byHand(0), End: () => byHand(self.last), " ": () => play.click()};
  addEventListener("keydown", (event) => {
    const taken = event.target.closest?.("input, .list, summary, pre") || event.ctrlKey || event.metaKey || event.altKey;
    const isButton = event.key === " " && event.target.closest?.("button");
    if (taken || isButton || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  return self;
}

// ---- The page

// Shows a command that prints the same numbers.
function command(text) {
  $(".command pre").textContent = text;
}

// Loads the core, makes the page, and tells a page around this one how high it is.
async function start(page) {
  if ($("#core")) await loadCore();
  await page();
  const tell = () => parent.postMessage({height: document.documentElement.scrollHeight}, "*");
  if (parent !== window) new ResizeObserver(tell).observe(document.body);
  $(".command button").addEventListener("click", async (event) => {
    await navigator.clipboard.writeText($(".command pre").textContent);
    event.target.textContent = "copied";
  });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) onWidth();
    width = innerWidth;
  });
  document.body.dataset.ready = "yes";
}
