"use strict";
// The player of schedules: named ones, and the reader's own list (builder.js).

const kFormulas = {  // the time if F, B and W take 1 in each model chunk; lesson 16's table
  "naive": "3 m p", "gpipe": "3 m + 3 (p - 1)", "1f1b": "3 m + 3 (p - 1)", "interleaved": "3 m v + 3 (p - 1)",
  "zb-h1": "3 m + p - 1 + max(p - m, 0)", "zb-h2": "3 m + p - 1 + max(p - 1 - floor(m / 2), 0)",
  "zb-v": "max(6 m + p - 1, 4 m + 4 p - 2)",
};
const kLeft = 52, kRight = 72, kRow = 32, kBox = 27, kTop = 8, kHeldRow = 24;

const kLetters = {forward: "F", backward: "B", backward_input: "B", backward_weight: "W"};

let run;      // what the core says of the schedule: exports.h
let chunks;   // of the model, on each stage
let span;     // the time that the picture shows, and the pixels of a unit
let scale;
let times;    // at which something begins or ends
let boxes;    // [element, action, stage] of all work
let player;   // of the steps

const isMine = () => settings.schedule === "mine";
const costs = () => [settings.F, settings.B, settings.W, settings.message];
const isWork = (kind) => kind.startsWith("forward") || kind.startsWith("backward");

// ---- The picture

function draw() {
  const holder = $("#picture"), {m, F, B, W} = settings;
  const shortest = Math.min(...run.stages.flat().filter(([kind, , , , from, to]) => isWork(kind) && to > from)
    .map(([, , , , from, to]) => to - from), run.time);
  span = Math.max(run.time, isMine() ? m * (F + B + W) : 0);  // no list by hand is shorter in the end
  scale = Math.max((holder.clientWidth - kLeft - kRight) / span, 8 / shortest);
  const p = run.stages.length, x = (time) => kLeft + time * scale;
  const heldTop = kTop + p * kRow + 46, height = heldTop + p * kHeldRow + 4;
  holder.replaceChildren();
  const svg = make(holder, "svg", {width: x(span) + kRight, height, role: "img", "aria-label": summary()});
  boxes = [];
  for (let s = 0; s < p; ++s) {
    const y = kTop + s * kRow;
    make(svg, "text", {x: 0, y: y + 18, class: "soft"}, `stage ${s}`);
    make(svg, "rect", {x: kLeft, y, width: span * scale, height: kBox, class: "idle"});
    make(svg, "text", {x: x(span) + 8, y: y + 18, class: "soft"}, `${(100 * run.idle[s]).toFixed(0)} % idle`);
    for (const action of run.stages[s]) if (isWork(action[0])) drawBox(svg, action, s, x, y);
  }
  drawTimes(svg, x, kTop + p * kRow + 2);
  make(svg, "text", {x: 0, y: heldTop - 10, class: "soft"},
       `activations held, in micro-batches${chunks > 1 ? ` (a model chunk counts 1/${chunks})` : ""}`);
  for (let s = 0; s < p; ++s) drawHeld(svg, s, x, heldTop + s * kHeldRow);
  make(svg, "line", {class: "cursor", y1: 0, y2: height, visibility: "hidden"});
}

function drawBox(svg, action, s, x, y) {
  const [kind, k, chunk, , from, to] = action;
  const width = x(to) - x(from), letter = chunks > 1 ? String.fromCharCode(97 + chunk) : "";
  const box = make(svg, "g", {class: "box"});
  const rect = make(box, "rect", {class: kind + (chunk > 0 ? " pale" : ""), x: x(from), y, width, height: kBox});
  make(rect, "title", {}, `${kind} of micro-batch ${k}${chunks > 1 ? `, model chunk ${chunk}` : ""}: ${short(from)} to ${short(to)}`);
  const text = k + letter;
  if (width >= 7 * text.length + 3) make(box, "text", {class: "on", x: (x(from) + x(to)) / 2, y: y + 18}, text);
  box.addEventListener("pointerenter", () => follow(k));
  box.addEventListener("pointerleave", () => follow(null));
  boxes.push([box, action, s]);
}

function drawTimes(svg, x, y) {
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((one) => one * (x(1) - x(0)) >= 34) ?? 1000;
  for (let time = 0; time <= span; time += step) {
    make(svg, "text", {x: x(time), y: y + 12, class: "soft", "text-anchor": "middle"}, time);
  }
}

// Steps of what a stage holds, as high as the most of all stages.
function drawHeld(svg, s, x, y) {
  const most = Math.max(...run.buffers), base = y + kHeldRow - 5, high = (n) => base - (kHeldRow - 8) * n / most;
  let path = `M${x(0)} ${base}`;
  for (const [time, number] of run.held[s]) path += `H${x(time)}V${high(number)}`;
  make(svg, "path", {d: path + `H${x(span)}V${base}Z`, class: "held"});
  make(svg, "line", {x1: kLeft, x2: x(span), y1: base, y2: base, class: "base"});
  make(svg, "text", {x: 0, y: base - 3, class: "soft"}, `stage ${s}`);
  make(svg, "text", {x: x(span) + 8, y: base - 3, class: "soft"}, `most ${short(run.buffers[s] / chunks)}`);
}

function follow(k) {
  $("#picture svg").classList.toggle("followed", k !== null);
  for (const [box, action] of boxes) box.classList.toggle("same", action[1] === k);
}

// ---- Steps

// Returns what a stage does at a time, in words.
function doing(s, time) {
  const [kind, k, , peer] = run.stages[s].find((action) => !action[0].startsWith("send") && action[5] > time) ?? [];
  const now = boxes.find(([, action, stage]) => stage === s && action[4] <= time && time < action[5]);
  if (now) return kLetters[now[1][0]] + now[1][1];
  if (kind?.startsWith("recv")) return `waits for ${kind.slice(5)} ${k} of stage ${peer}`;
  return kind ? `waits for the embedding's sum with stage ${peer}` : "is done";
}

// Step 0 is the whole picture; step i is what happens at the i-th time.
function showStep(at) {
  const time = at === 0 ? Infinity : times[at - 1];
  for (const [box, [, , , , from, to]] of boxes) {
    box.classList.toggle("later", from > time);
    box.classList.toggle("now", from <= time && time < to);
  }
  const cursor = $("#picture .cursor"), holder = $("#picture");
  cursor.setAttribute("visibility", at === 0 ? "hidden" : "visible");
  if (at === 0) return "→ steps through it";
  const x = kLeft + time * scale;
  cursor.setAttribute("x1", x);
  cursor.setAttribute("x2", x);
  if (holder.scrollWidth > holder.clientWidth) holder.scrollLeft = x - holder.clientWidth / 2;
  return `time ${short(time)}: ` + run.stages.map((_, s) => `stage ${s}: ${doing(s, time)}`).join(" · ");
}

// ---- Numbers

function summary() {
  return `${isMine() ? "your list" : settings.schedule} on ${count(run.stages.length, "stage")}, ` +
    `${settings.m} micro-batch${settings.m === 1 ? "" : "es"}: ${percent(run.bubble)} bubble`;
}

function showNumbers(unit) {
  const numbers = $("#numbers");
  numbers.replaceChildren();
  const add = (name, title, value, more = "") => {
    const cell = make(numbers, "div");
    make(cell, "dt", {}, title);
    const dd = make(cell, "dd", {id: name}, value);
    if (more) make(dd, "small", {}, " " + more);
  };
  add("time", "time of a step", short(run.time));
  add("bubble", "bubble, counted", percent(run.bubble));
  if (unit) {
    const formula = kFormulas[settings.schedule];
    add("formula", "bubble by formula, for F = B = W and free messages", percent(unit.unit_bubble),
        `1 − ${chunks > 1 ? `3 m v / (${formula})` : `3 m / (${formula})`}`);
  }
  add("held", "most activations on a stage", short(Math.max(...run.buffers) / chunks), "micro-batches");
  add("messages", "messages", run.messages);
}

function showLegend() {
  const legend = $("#legend"), splits = run.stages.flat().some(([kind]) => kind === "backward_weight");
  legend.replaceChildren();
  const add = (colour, text) => {
    const item = make(legend, "li");
    make(item, "i", {style: `background: var(--${colour})`});
    item.append(text);
  };
  add("forward", "F forward");
  add("backward", splits ? "B backward, input half" : "B + W backward");
  if (splits) add("weight", "W backward, weight half");
  add("idle", "idle");
  add("activations", "activations held");
  if (chunks > 1) make(legend, "li", {class: "soft"}, "pale: later model chunks; letters name them");
}

// ---- The page

// Shows a schedule: what the core has said of it, and its formula if it has one.
function present(newRun, newChunks, unit = null) {
  run = newRun;
  chunks = newChunks;
  times = [...new Set(run.stages.flat().filter(([kind]) => isWork(kind)).flatMap((a) => [a[4], a[5]]))]
    .sort((a, b) => a - b).slice(0, -1);
  player.stop();
  player.last = times.length;
  draw();
  showLegend();
  showNumbers(unit);
  player.go(0);
}

function showCommand() {
  const {schedule, p, m, v} = settings;
  const layers = p * (schedule === "interleaved" ? v : schedule === "zb-v" ? 2 : 1);
  $("#terminal").hidden = isMine() || p < 2;
  command(`tools/run 16 --device virtual --cluster h100x8 --ranks ${p} --schedule ${schedule}` +
          `${schedule === "interleaved" ? ` --chunks ${v}` : ""} --layers ${layers} ` +
          `--global-batch-size ${m} --micro-batch-size 1`);
}

function update() {
  const {schedule, p, m, v} = settings;
  $("#v").closest("label").hidden = schedule !== "interleaved";
  for (const part of ["#builder", ".mine"]) for (const one of document.querySelectorAll(part)) one.hidden = !isMine();
  showCommand();
  const answer = isMine() ? null : ask("schedule", schedule, p, m, v, ...costs());
  $("#error").hidden = !answer?.error;
  $("figure").hidden = $("#numbers").hidden = Boolean(answer?.error);
  if (isMine()) return updateBuilder();
  if (answer.error) {
    $("#error").textContent = answer.error + ".";
  } else {
    present(answer.run, answer.chunks, answer);
  }
}

// Returns the picture that the course's pages show: for a test.
const drawing = (...words) => ask("drawing", ...words);

start(() => {
  choice("schedule", "schedule", [...Object.keys(kFormulas), ["mine", "build your own"]], "1f1b");
  slider("p", "p", "stages", range(1, 8), 4);
  slider("m", "m", "micro-batches", range(1, 32), 8);
  slider("v", "v", "model chunks", range(2, 4), 2);
  slider("F", "F", "forward", range(0.25, 3, 0.25), 1);
  slider("B", "B", "input half", range(0.25, 3, 0.25), 1);
  slider("W", "W", "weight half", range(0.25, 3, 0.25), 1);
  slider("message", "", "message", range(0, 1, 0.05), 0);
  player = steps("step", showStep);
  makeBuilder();
  onSetting = update;
  update();
  onWidth = () => {
    if (run) draw(), showStep(player.at);
  };
});
