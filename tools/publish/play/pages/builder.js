"use strict";
// Build your own list: the reader puts work on stages, the course's checker judges it.

let lists = [];             // of each stage: ["F0", "B0", ...]
let chosen = 0, caret = 0;  // the stage, and the place of its cursor
let runnable = [];          // of each stage: how many of its actions can run
let par;                    // what the search has found, for these settings
let parFor = "";            // the request that it answers

const splits = () => settings.halves === "yes";
const kinds = () => (splits() ? ["F", "B", "W"] : ["F", "B"]);
const task = () => [settings.p, settings.m, settings.buffers, splits() ? 1 : 0, ...costs()];

// ---- What the reader does

// Puts the next work of a kind at the cursor: that of the first micro-batch which the list does not have.
function insert(kind) {
  const list = lists[chosen];
  const k = range(0, settings.m - 1).find((one) => !list.includes(kind + one));
  if (k === undefined) return;
  list.splice(caret++, 0, kind + k);
  changed();
}

function remove() {
  if (caret === 0) return;
  lists[chosen].splice(--caret, 1);
  changed();
}

// Moves the action before the cursor.
function shift(by) {
  const list = lists[chosen], from = caret - 1, to = from + by;
  if (from < 0 || to < 0 || to >= list.length) return;
  list.splice(to, 0, ...list.splice(from, 1));
  caret += by;
  changed();
}

function moveTo(stage, place) {
  chosen = (stage + settings.p) % settings.p;
  caret = Math.max(0, Math.min(place, lists[chosen].length));
  drawLists();
}

function changed() {
  update();
  $("#lists .chosen").focus({preventScroll: true});
}

function replaceLists(now) {
  lists = now;
  chosen = caret = 0;
  update();
}

const kKeys = {
  f: () => insert("F"), b: () => insert("B"), w: () => splits() && insert("W"), Backspace: remove,
  ArrowUp: () => moveTo(chosen - 1, Infinity), ArrowDown: () => moveTo(chosen + 1, Infinity),
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
  const action = by ? () => (event.shiftKey ? shift(by) : moveTo(chosen, caret + by))
                    : kKeys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!action) return;
  event.preventDefault();
  action();
  $("#lists .chosen").focus({preventScroll: true});
}

// ---- What it looks like

function drawLists() {
  const holder = $("#lists");
  holder.replaceChildren();
  lists.forEach((list, s) => {
    const row = make(holder, "div", {class: "list" + (s === chosen ? " chosen" : ""), tabindex: s === chosen ? 0 : -1,
      role: "group", "aria-label": `stage ${s}: ${list.join(" ") || "nothing"}; cursor after ${s === chosen ? caret : list.length}`});
    make(row, "span", {}, `stage ${s}`);
    const items = make(row, "ol");
    const mark = (i) => s === chosen && i === caret && make(items, "li", {class: "caret", "aria-hidden": "true"});
    list.forEach((action, i) => {
      mark(i);
      const item = make(items, "li", {class: i < runnable[s] ? "" : "waits"});
      const button = make(item, "button", {type: "button", class: action[0], tabindex: -1}, action);
      button.addEventListener("click", (event) => {
        event.stopPropagation();
        moveTo(s, i + 1);
      });
    });
    mark(list.length);
    row.addEventListener("click", () => moveTo(s, Infinity));
    row.addEventListener("keydown", onKey);
  });
}

function drawTools() {
  const tools = $("#tools");
  tools.replaceChildren();
  const add = (text, label, action) => {
    make(tools, "button", {type: "button", "aria-label": label, title: label}, text).addEventListener("click", action);
  };
  const names = {F: "forward", B: splits() ? "backward, input half" : "backward", W: "backward, weight half"};
  for (const kind of kinds()) add("+ " + kind, "add a " + names[kind], () => insert(kind));
  add("◂", "move the action before the cursor to the left", () => shift(-1));
  add("▸", "move the action before the cursor to the right", () => shift(1));
  add("⌫", "take out the action before the cursor", remove);
  add("clear", "empty all lists", () => replaceLists(emptyLists()));
  add("show par", "replace all lists by the search's", () => replaceLists(findPar().list));
}

const emptyLists = () => range(0, settings.p - 1).map(() => []);

function findPar() {
  const request = ["par", ...task()];
  if (parFor !== request.join(" ")) par = ask(...request);
  parFor = request.join(" ");
  return par;
}

// Says how good a list is that is right.
function score() {
  const best = findPar().time, over = run.time - best;
  const time = `A step takes ${short(run.time)}; the search's best, the par, takes ${short(best)}. `;
  if (Math.abs(over) < 1e-9) return time + "Par!";
  return time + (over > 0 ? `${short(over)} over par.` : `${short(-over)} under par: better than the search.`);
}

function updateBuilder() {
  // Other settings may have fewer stages or micro-batches.
  lists = emptyLists().map((_, s) => (lists[s] ?? []).filter(
    (action) => Number(action.slice(1)) < settings.m && kinds().includes(action[0])));
  chosen = Math.min(chosen, settings.p - 1);
  caret = Math.min(caret, lists[chosen].length);
  const answer = ask("list", ...task(), lists.map((list) => list.join(" ")).join(" / "));
  runnable = answer.runnable;
  $("figure").hidden = $("#numbers").hidden = !answer.run;
  if (answer.run) present(answer.run, 1);
  drawLists();
  drawTools();
  const isRight = answer.missing === 0 && answer.faults.length === 0;
  $("#score").textContent = isRight ? score()
    : answer.missing > 0 ? `${answer.missing} of ${settings.p * settings.m * kinds().length} actions are not in the lists yet.` : "";
  $("#faults").replaceChildren();
  for (const fault of answer.faults) make($("#faults"), "li", {}, fault);
}

// Adds the controls of the builder.
function makeBuilder() {
  choice("halves", "backward", [["yes", "in halves"], ["no", "whole"]], "yes").classList.add("mine");
  slider("buffers", "", "activation buffers", range(1, 16), 4).classList.add("mine");
  lists = emptyLists();
}
