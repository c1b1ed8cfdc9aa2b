"use strict";
// Lesson 14's plan: the square of all queries by all keys, and the work of each rank in each round.

const kEdge = 40;

let plan;  // what the core says: exports.h
let player;

// Runs of positions that follow each other: [first, last].
function runs(positions) {
  const all = [];
  for (const position of positions) {
    if (all.length > 0 && all.at(-1)[1] + 1 === position) all.at(-1)[1] = position;
    else all.push([position, position]);
  }
  return all;
}

// Returns the rows of a tile: [query, first key, last key], by the positions of rank and owner.
function rowsOf(rank, [owner, firstQuery, queries, keys, causal]) {
  return range(0, queries - 1).flatMap((i) => {
    const seen = plan.positions[owner].slice(0, causal ? i + 1 : keys);
    return runs(seen).map(([from, to]) => [plan.positions[rank][firstQuery + i], from, to]);
  });
}

// ---- The square

function drawSquare(round) {
  const holder = $("#square"), side = holder.clientWidth, scale = (side - kEdge) / settings.t;
  holder.replaceChildren();
  const svg = make(holder, "svg", {width: side, height: side, role: "img",
    "aria-label": `the square of ${settings.t} queries by ${settings.t} keys in round ${round}`});
  const at = (position) => kEdge + position * scale;
  plan.rounds.forEach((tiles, i) => tiles.forEach((tile, rank) => {
    if (!tile) return;
    const rows = rowsOf(rank, tile);
    const d = rows.map(([q, from, to]) => `M${at(from)} ${at(q)}H${at(to + 1)}V${at(q + 1)}H${at(from)}Z`).join("");
    const state = i < round ? " done" : i === round ? " now" : "";
    const path = make(svg, "path", {d, class: "pairs" + state, "data-pairs": rows.reduce((sum, [, a, b]) => sum + b - a + 1, 0)});
    make(path, "title", {}, `round ${i}: rank ${rank} with the keys of rank ${tile[0]}, ${tile[5]} pairs`);
  }));
  drawEdges(svg, at);
  if (round < plan.rounds.length) plan.rounds[round].forEach((tile, rank) => tile && nameTile(svg, rank, rowsOf(rank, tile), at, scale));
}

// Lines between slices, and the ranks that have them.
function drawEdges(svg, at) {
  make(svg, "text", {x: kEdge, y: 12, class: "soft"}, "keys of rank");
  make(svg, "text", {x: 12, y: kEdge, class: "soft", transform: `rotate(-90 12 ${kEdge})`, "text-anchor": "end"}, "queries of rank");
  plan.positions.forEach((positions, rank) => runs(positions).forEach(([from, to]) => {
    const middle = (at(from) + at(to + 1)) / 2, size = at(to + 1) - at(from) < 12 ? 9 : 12;
    make(svg, "text", {x: middle, y: kEdge - 10, class: "who", "font-size": size}, rank);
    make(svg, "text", {x: kEdge - 12, y: middle, class: "who", "font-size": size}, rank);
    if (from === 0) return;
    make(svg, "line", {x1: at(from), x2: at(from), y1: at(from), y2: at(settings.t), class: "edge"});
    make(svg, "line", {x1: kEdge, x2: at(from), y1: at(from), y2: at(from), class: "edge"});
  }));
}

// Writes the rank into the largest rectangle of its tile.
function nameTile(svg, rank, rows, at, scale) {
  const blocks = new Map();  // by the first key and the run of queries
  let before = null;
  for (const row of [...rows].sort((a, b) => a[1] - b[1] || a[0] - b[0])) {
    if (!before || before[1] !== row[1] || before[0] + 1 !== row[0]) blocks.set(row, []);
    [...blocks.values()].at(-1).push(row);
    before = row;
  }
  const size = (block) => block.reduce((sum, [, from, to]) => sum + to - from + 1, 0);
  const block = [...blocks.values()].sort((a, b) => size(b) - size(a))[0];
  const last = block.at(-1), triangle = block[0][2] < last[2];
  const x = at(block[0][1] + (last[2] - block[0][1] + 1) * (triangle ? 1 / 3 : 1 / 2));
  const y = at(block[0][0] + block.length * (triangle ? 2 / 3 : 1 / 2));
  if (block.length * scale >= 12) make(svg, "text", {x, y, class: "who on", "font-weight": 600}, rank);
}

// ---- The bars: as wide as a rank's pairs; a round lasts as long as its longest one

function drawBars(round) {
  const holder = $("#bars"), row = 26, left = 46, width = Math.min(holder.clientWidth, 560);
  const most = plan.rounds.map((tiles) => Math.max(...tiles.map((tile) => tile?.[5] ?? 0)));
  const longest = Math.max(plan.critical, plan.other.critical);
  const scale = (width - left - 2) / longest;
  holder.replaceChildren();
  const height = row * settings.n + 22;
  const svg = make(holder, "svg", {width, height, role: "img",
    "aria-label": `the critical path has ${plan.critical} pairs`});
  let x = left;
  plan.rounds.forEach((tiles, i) => {
    tiles.forEach((tile, rank) => {
      const y = 18 + rank * row, pairs = tile?.[5] ?? 0;
      make(svg, "rect", {x, y, width: most[i] * scale, height: row - 4, class: "waits"});
      if (!tile) return;
      const busy = make(svg, "rect", {x, y, width: pairs * scale, height: row - 4, class: "busy" + (i === round ? " now" : "")});
      make(busy, "title", {}, `${pairs} pairs`);
      if (pairs * scale > 18) make(svg, "text", {x: x + pairs * scale / 2, y: y + 11, class: "who on"}, `k${tile[0]}`);
    });
    if (most[i] * scale > 16) make(svg, "text", {x: x + 2, y: 11, class: "soft"}, i === 0 && most[i] * scale > 50 ? "round 0" : i);
    x += most[i] * scale;
  });
  for (let rank = 0; rank < settings.n; ++rank) make(svg, "text", {x: 0, y: 18 + rank * row + 15, class: "soft"}, `rank ${rank}`);
}

function drawNumbers() {
  const numbers = $("#numbers"), commas = (number) => number.toLocaleString("en-US");
  numbers.replaceChildren();
  const add = (id, title, value) => {
    const cell = make(numbers, "div");
    make(cell, "dt", {}, title);
    make(cell, "dd", {id}, value);
  };
  add("critical", "on the critical path", commas(plan.critical));
  add("most", "busiest rank", commas(Math.max(...plan.pairs)));
  add("least", "idlest rank", commas(Math.min(...plan.pairs)));
  const ratio = plan.other.critical / plan.critical;
  add("ratio", `${plan.other.name} takes`, `${ratio.toFixed(2)} times as long`);
  const table = $("#ranks");
  table.replaceChildren();
  const head = make(make(table, "thead"), "tr"), body = make(table, "tbody");
  for (const text of ["rank", "positions", "tokens", "pairs"]) make(head, "th", {scope: "col"}, text);
  plan.positions.forEach((positions, rank) => {
    const line = make(body, "tr");
    const where = runs(positions).map(([from, to]) => `${from} to ${to}`).join(", ");
    for (const text of [rank, where, positions.length, commas(plan.pairs[rank])]) make(line, "td", {}, text);
  });
}

// ---- The page

function showRound(round) {
  drawSquare(round);
  drawBars(round);
  if (round === plan.rounds.length) return "all rounds are done";
  const idle = plan.rounds[round].filter((tile) => !tile).length;
  const what = round === 0 ? "each rank with its own keys" : `rank r with the keys of rank r - ${round}`;
  return `round ${round} of 0 to ${plan.rounds.length - 1}: ${what}` + (idle > 0 ? `; ${count(idle, "rank")} wait` + (idle === 1 ? "s" : "") : "");
}

function update() {
  const {slices, t, n} = settings;
  const other = slices === "zigzag" ? "contiguous" : "zigzag";
  plan = ask("attention", slices, t, n);
  plan.other = {name: other, critical: ask("attention", other, t, n).critical};
  command(`tools/run 14 --device virtual --cluster h100x8 --ranks ${n} --slices ${slices} ` +
          `--sequence-length ${t} --global-batch-size 1`);
  drawNumbers();
  player.stop();
  player.last = plan.rounds.length;
  player.go(Math.min(player.at, player.last));
}

start(() => {
  choice("slices", "slices", ["contiguous", "zigzag"], "zigzag");
  slider("n", "N", "ranks", range(2, 8), 4);
  slider("t", "T", "tokens", [16, 32, 48, 64, 96, 128, 192, 256], 64);
  player = steps("round", showRound);
  onSetting = onWidth = update;
  update();
});
