"use strict";
// Lesson 00's plans: their rounds on a circle, and their costs.

const kColours = {naive: "gradients", ring: "parameters", tree: "optimizer", halving: "activations"};
const kFormulas = {  // lesson 00's table for all_reduce: rounds, and bytes of the rank that sends most
  naive: ["2 (N - 1)", "(N - 1) n"], ring: ["2 (N - 1)", "2 (N - 1)/N n"],
  tree: ["2 ceil(log2 N)", "up to ceil(log2 N) n"], halving: ["2 log2 N", "2 (N - 1)/N n"],
};
const kAdds = ["all_reduce", "reduce_scatter", "reduce"];
const kInner = 108, kOuter = 206, kMiddle = 240;

let player;

// ---- The circle

// A point at a rank's direction, turned by a part of the way to the next rank.
function at(rank, radius, turn = 0) {
  const angle = 2 * Math.PI * (rank + turn) / settings.n - Math.PI / 2;
  return [kMiddle + radius * Math.cos(angle), kMiddle + radius * Math.sin(angle)];
}

// The outline of parts of a rank's vector: those from `first` on, up to `last`.
function cells(rank, first, last) {
  const width = (kOuter - kInner) / settings.n, from = kInner + first * width, to = kInner + last * width;
  const half = 0.46, points = [[from, -half], [to, -half], [to, half], [from, half]].map(([r, t]) => at(rank, r, t));
  const [a, b, c, d] = points.map(([x, y]) => `${x.toFixed(2)} ${y.toFixed(2)}`);
  return `M${a}L${b}A${to} ${to} 0 0 1 ${c}L${d}A${from} ${from} 0 0 0 ${a}Z`;
}

// The number of ranks whose values are in a sum: each has a bit of its own.
const contributions = (value) => value.toString(2).replaceAll("0", "").length;

// Returns how dark a cell is, from 0 to 1.
function shade(value) {
  if (value === null) return 0;
  return kAdds.includes(settings.collective) ? contributions(value) / settings.n : 1;
}

// Returns whether a part is as the collective promises.
function isFinal(rank, part, value) {
  if (value === null) return false;
  const all = contributions(value) === settings.n;
  switch (settings.collective) {
    case "all_reduce": return all;
    case "reduce_scatter": return all && part === rank;
    case "reduce": return all && rank === 0;
    case "all_gather": return true;
    case "broadcast": return true;
    default: return value === 2 ** part;
  }
}

function drawCircle(answer, done) {
  const holder = $("#circle"), n = settings.n, label = 12 * 480 / holder.clientWidth;
  holder.replaceChildren();
  const svg = make(holder, "svg", {viewBox: "0 0 480 480", role: "img", class: n > 12 ? "many" : "",
    "aria-label": `${n} ranks after ${done} of ${count(answer.rounds, "round")}`});
  answer.has.forEach((vector, rank) => {
    make(svg, "path", {d: cells(rank, 0, n), class: "ground"});
    vector.forEach((value, part) => {
      const classes = "cell" + (isFinal(rank, part, value) ? " full" : "");
      const box = make(svg, "path", {d: cells(rank, part, part + 1), class: classes, "fill-opacity": shade(value)});
      make(box, "title", {}, `rank ${rank}, part ${part}: ` + contents(value));
    });
  });
  for (const [, to, first, last] of answer.messages) make(svg, "path", {d: cells(to, first, last), class: "came"});
  for (const message of answer.messages) drawMessage(svg, ...message);
  for (let rank = 0; rank < n; ++rank) {
    const [x, y] = at(rank, kOuter + 4 + label);
    make(svg, "text", {x, y, class: "rank", "font-size": label}, rank);
  }
}

function contents(value) {
  if (value === null) return "nothing yet";
  const ranks = range(0, settings.n - 1).filter((r) => Math.floor(value / 2 ** r) % 2 === 1);
  return (ranks.length === settings.n && ranks.length > 1 ? "of all ranks" : "of rank " + ranks.join(" + "));
}

// An arrow through the middle, bent to it. It leaves a rank on the side where it goes, so two ranks that send to each
// other have an arrow each.
function drawMessage(svg, from, to, first, last, adds) {
  const n = settings.n, radius = kInner - 9, ahead = (to - from + n) % n, side = ahead <= n / 2 ? 1 : -1;
  const way = side > 0 ? ahead : n - ahead, turn = Math.min(0.3, 0.12 * way);
  const width = 1.2 + 3 * Math.sqrt((last - first) / n), head = Math.min(4 + 1.6 * width, 110 / n);
  const [x1, y1] = at(from, radius, turn * side), [x2, y2] = at(to, radius, -turn * side);
  const middle = radius * Math.cos(Math.PI * Math.max(0, way - 2 * turn) / n);
  const [mx, my] = at(from, middle * (way === 1 ? 1 - 0.55 * Math.sin(Math.PI / n) : 0.5), side * way / 2);
  const length = Math.hypot(x2 - mx, y2 - my), ux = (x2 - mx) / length, uy = (y2 - my) / length;
  const bx = x2 - head * ux, by = y2 - head * uy, wx = -0.42 * head * uy, wy = 0.42 * head * ux;
  const line = make(svg, "path", {d: `M${x1} ${y1}Q${mx} ${my} ${bx} ${by}`, class: "message", "stroke-width": width});
  const parts = last - first === 1 ? `part ${first}` : `parts ${first} to ${last - 1}`;
  make(line, "title", {}, `rank ${from} sends ${parts} to rank ${to}, which ${adds ? "adds" : "stores"} it`);
  make(svg, "path", {class: "head", d: `M${x2} ${y2}L${bx + wx} ${by + wy}L${bx - wx} ${by - wy}Z`});
}

// Rounds are numbered from 0, as in the lesson.
function showRound(done) {
  const answer = ask("exchanges", settings.algorithm, settings.collective, settings.n, done);
  drawCircle(answer, done);
  if (done === 0) return `before the first of ${count(answer.rounds, "round")}`;
  const sizes = answer.messages.map(([, , first, last]) => last - first), most = Math.max(...sizes);
  const adds = answer.messages.filter((message) => message[4]).length;
  const how = adds === 0 ? "stored" : adds === answer.messages.length ? "added" : "added or stored";
  return `round ${done - 1}, ${done} of ${answer.rounds}: ${count(answer.messages.length, "message")} of ` +
    `${most === 1 ? "one part" : `${Math.min(...sizes) < most ? "up to " : ""}${most} parts`}, ${how}`;
}

// ---- The costs

function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let i = 0;
  while (bytes >= 1024 && i < 3) bytes /= 1024, ++i;
  return `${short(Number(bytes.toPrecision(4)))} ${units[i]}`;
}

function timeText(seconds) {
  const [value, unit] = seconds < 1e-3 ? [1e6 * seconds, "µs"] : seconds < 1 ? [1e3 * seconds, "ms"] : [seconds, "s"];
  return `${Number(value.toPrecision(4))} ${unit}`;
}

function drawTable(costs) {
  const table = $("#costs");
  table.replaceChildren();
  const head = make(make(table, "thead"), "tr");
  for (const text of ["algorithm", "rounds", "most sent", "time"]) make(head, "th", {scope: "col"}, text);
  const body = make(table, "tbody");
  for (const cost of costs) {
    const row = make(body, "tr", cost.name === settings.algorithm ? {class: "here"} : {});
    const name = make(row, "td");
    make(name, "i", {style: `background: var(--${kColours[cost.name]})`});
    name.append(cost.name);
    if (cost.why_not) {
      make(row, "td", {colspan: 3, class: "soft"}, cost.why_not.includes("power") ? "N must be a power of two" : "does not do it");
      continue;
    }
    const formula = settings.collective === "all_reduce" ? kFormulas[cost.name] : null;
    make(row, "td", {title: formula?.[0] ?? ""}, cost.rounds);
    make(row, "td", {title: formula?.[1] ?? ""}, bytesText(cost.most_sent));
    make(row, "td", {}, timeText(cost.seconds));
  }
}

const kSizes = range(10, 28).map((i) => 2 ** i);

function drawChart(costs) {
  const holder = $("#chart"), left = 54, right = 58, top = 12, bottom = 30, width = holder.clientWidth, height = 250;
  const times = costs.flatMap((cost) => [kSizes[0], kSizes.at(-1)].map((n) => cost.alpha + cost.beta * n));
  const low = Math.floor(Math.log10(Math.min(...times))), high = Math.ceil(Math.log10(Math.max(...times)));
  const x = (n) => left + (width - left - right) * (Math.log2(n) - 10) / 18;
  const y = (t) => height - bottom - (height - top - bottom) * (Math.log10(t) - low) / (high - low);
  holder.replaceChildren();
  const svg = make(holder, "svg", {width, height, role: "img", "aria-label": "time against bytes, on logarithmic axes"});
  for (let power = low; power <= high; ++power) {
    make(svg, "line", {x1: left, x2: width - right, y1: y(10 ** power), y2: y(10 ** power), class: "axis"});
    make(svg, "text", {x: left - 6, y: y(10 ** power) + 4, class: "soft", "text-anchor": "end"}, timeText(10 ** power));
  }
  for (const n of [2 ** 10, 2 ** 16, 2 ** 22, 2 ** 28]) {
    make(svg, "text", {x: x(n), y: height - 8, class: "soft", "text-anchor": "middle"}, bytesText(n));
  }
  make(svg, "line", {x1: x(settings.bytes), x2: x(settings.bytes), y1: top, y2: height - bottom, class: "marker"});
  const ends = [];
  for (const cost of costs) {
    const here = cost.name === settings.algorithm;
    const points = kSizes.map((n) => `${x(n).toFixed(1)},${y(cost.alpha + cost.beta * n).toFixed(1)}`);
    make(svg, "polyline", {points: points.join(" "), class: `curve ${cost.name}${here ? " here" : ""}`});
    if (here) make(svg, "circle", {cx: x(settings.bytes), cy: y(cost.seconds), r: 5, class: "dot"});
    ends.push([y(cost.alpha + cost.beta * kSizes.at(-1)), cost.name]);
  }
  // Labels that would lie on each other move apart.
  ends.sort((a, b) => a[0] - b[0]);
  let lowest = 0;
  for (const [end, name] of ends) {
    lowest = Math.max(lowest + 14, end + 4);
    make(svg, "text", {x: width - right + 6, y: lowest}, name);
  }
}

// Says which algorithm is the fastest, and where another one begins to be.
function crossings(costs) {
  const best = (n) => costs.reduce((a, b) => (b.alpha + b.beta * n < a.alpha + a.beta * n ? b : a));
  let now = best(kSizes[0]), text = `The fastest: ${now.name}`, n = kSizes[0];
  for (;;) {
    const next = costs.filter((cost) => cost.beta < now.beta && cost.alpha > now.alpha)
      .map((cost) => [(cost.alpha - now.alpha) / (now.beta - cost.beta), cost])
      .filter(([where]) => where > n && where <= kSizes.at(-1)).sort((a, b) => a[0] - b[0])[0];
    if (!next) return text + ".";
    [n, now] = next;
    text += `, from ${bytesText(n)} on ${now.name}`;
  }
}

// ---- The page

function update(changed = "") {
  const {algorithm, collective, n, bytes, alpha, bandwidth} = settings;
  const all = ask("costs", collective, n, bytes, alpha * 1e-6, 1 / (bandwidth * 1e9));
  const costs = all.filter((cost) => !cost.why_not);
  const whyNot = all.find((cost) => cost.name === algorithm).why_not;
  $("#error").hidden = !whyNot;
  $("#circle").hidden = $(".steps").hidden = $("#words").hidden = Boolean(whyNot);
  drawTable(all);
  drawChart(costs);
  $("#crossing").textContent = crossings(costs);
  command(`tools/run 00 -n ${n} --collective ${collective} --show ${algorithm}`);
  if (whyNot) {
    $("#error").textContent = whyNot + ".";
    return;
  }
  if (["bytes", "alpha", "bandwidth"].includes(changed)) return;
  player.stop();
  player.last = ask("exchanges", algorithm, collective, n, 0).rounds;
  player.go(Math.min(player.at, player.last));
  $("#words pre").textContent = ask("words", algorithm, collective, n);
}

start(() => {
  choice("collective", "collective", ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all"], "all_reduce");
  choice("algorithm", "algorithm", Object.keys(kColours), "ring");
  slider("n", "N", "ranks", range(2, 32), 8);
  slider("bytes", "n", "bytes of a vector", kSizes, 2 ** 22, bytesText);
  slider("alpha", "alpha", "of a message", [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100], 10, (value) => `${value} µs`);
  slider("bandwidth", "1 / beta", "", [0.1, 0.5, 1, 2, 5, 10, 25, 50, 100, 200, 450, 900], 10, (value) => `${value} GB/s`);
  player = steps("round", showRound);
  onSetting = update;
  onWidth = () => update();
  player.at = 1;
  update();
});
