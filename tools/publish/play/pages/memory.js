"use strict";
// What the trainers predict (memory_table.cc), as bars.

let table;

// Returns the bytes of a category: a line [first, slope] through those of the first batches, and how far others are from it.
function bytesOf([first, slope = 0, ...others]) {
  return first + slope * (settings.batch - table.batches[0]) + (others[table.batches.indexOf(settings.batch) - 2] ?? 0);
}

// Returns the needs of a bar with these settings, or the words in which the lesson refuses.
function needOf(bar) {
  const {models, ranks, dtypes, recompute} = table;
  const {model, n, dtype, recompute: mode} = settings;
  const at = ((models.indexOf(model) * ranks.length + ranks.indexOf(n)) * dtypes.length + dtypes.indexOf(dtype)) *
    recompute.length + recompute.indexOf(mode);
  const numbers = bar.needs[at];
  if (typeof numbers === "number") return {refusal: table.refusals[numbers]};
  const bytes = numbers.map((number) => bytesOf(table.lines[number]));
  const sum = (all) => all.reduce((a, c) => a + c, 0), device = bytes.slice(0, 6), host = bytes.slice(6);
  return {device, host, total: sum(device), hostTotal: sum(host)};
}

// As the programs write bytes: two digits, and a tie goes to the even one.
function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (bytes >= 1024 && i < 4) bytes /= 1024, ++i;
  const hundredths = Math.abs(100 * bytes % 1) === 0.5 ? 2 * Math.round(50 * bytes) : Math.round(100 * bytes);
  return `${Number.isInteger(bytes) ? bytes : (hundredths / 100).toFixed(2)} ${units[i]}`;
}

const kGiB = 2 ** 30;

const nameOf = (bar) => bar.lesson.replaceAll("_", " ");

function drawBars(needs) {
  const holder = $("#bars"), limit = settings.card * kGiB;
  const most = Math.max(limit, ...needs.map((need) => need.total ?? 0));
  const focused = holder.contains(document.activeElement);
  holder.replaceChildren();
  table.bars.forEach((bar, i) => {
    const need = needs[i], isHere = bar.name === settings.lesson;
    const row = make(holder, "label", {class: "bar" + (isHere ? " here" : "") + (need.total > limit ? " over" : "")});
    const input = make(row, "input", {type: "radio", name: "lesson", value: bar.name});
    input.checked = isHere;
    input.addEventListener("change", () => set("lesson", bar.name));
    const name = make(row, "span", {class: "lesson"}, nameOf(bar));
    if (bar.note) make(name, "small", {}, bar.note);
    if (need.refusal) {
      make(row, "span", {class: "refused"}, need.refusal);
      return;
    }
    const track = make(row, "span", {class: "track"}), pile = make(track, "div");
    need.device.forEach((bytes, c) => bytes > 0 && make(pile, "span", {
      style: `width: ${100 * bytes / most}%; background: var(--${table.categories[c]})`,
      title: `${table.categories[c]}: ${bytesText(bytes)}`}));
    make(track, "i", {class: "card", style: `left: ${100 * limit / most}%`});
    const total = make(row, "span", {class: "total"});
    if (need.total > limit) make(total, "small", {}, "does not fit ");
    total.append(bytesText(need.total));
    if (need.hostTotal > 0) make(total, "small", {class: "host"}, `host ${bytesText(need.hostTotal)}`);
    if (isHere && focused) input.focus({preventScroll: true});
  });
}

function drawBytes(bar, need) {
  $("#name").textContent = nameOf(bar) + (bar.note ? `: ${bar.note}` : "");
  const body = $("#bytes");
  body.replaceChildren();
  if (need.refusal) return;
  const hasHost = need.hostTotal > 0;
  const line = (tag, cells) => {
    const row = make(body, "tr");
    cells.forEach((text) => make(row, tag, {}, text));
  };
  line("th", ["category", "bytes", ""].concat(hasHost ? ["bytes of the host", ""] : []));
  const write = (bytes) => [bytes.toLocaleString("en-US"), bytesText(bytes)];
  table.categories.forEach((category, c) => {
    if (need.device[c] === 0 && !(hasHost && need.host[c] > 0)) return;
    line("td", [category, ...write(need.device[c]), ...(hasHost ? write(need.host[c]) : [])]);
  });
  line("td", ["all", ...write(need.total), ...(hasHost ? write(need.hostTotal) : [])]);
  body.lastChild.className = "here";
}

// The command that memory_table.cc has asked for, but for the cluster's device, whose memory limits the run.
function commandOf(bar) {
  const {model, n, dtype, recompute, batch} = settings;
  return `tools/run ${bar.lesson} --device virtual --cluster h100x8x8${bar.ranked ? ` --ranks ${n}` : ""} --model ${model} ` +
    `--dtype ${dtype} --recompute ${recompute} --global-batch-size ${n * batch} --micro-batch-size ${batch}` +
    (bar.flags ? " " + bar.flags : "");
}

function update() {
  const needs = table.bars.map(needOf);
  const i = table.bars.findIndex((bar) => bar.name === settings.lesson);
  $("#tokens").textContent = table.tokens[table.models.indexOf(settings.model)].toLocaleString("en-US");
  drawBars(needs);
  drawBytes(table.bars[i], needs[i]);
  command(commandOf(table.bars[i]));
}

start(async () => {
  table = JSON.parse(new TextDecoder().decode(await embedded("table")));
  choice("model", "model", table.models, "gpt2-xl");
  choice("dtype", "dtype", table.dtypes, "bf16");
  choice("recompute", "recompute", table.recompute, "none");
  slider("n", "N", "ranks", table.ranks, 8);
  slider("batch", "B", "sequences at a time", table.batches, 1);
  slider("card", "", "memory of a card", [8, 12, 16, 24, 32, 40, 48, 80, 96, 141, 180], 24, (value) => `${value} GiB`);
  settings.lesson = first("lesson", table.bars.map((bar) => bar.name), "05");
  table.categories.forEach((category) => {
    const item = make($("#legend"), "li");
    make(item, "i", {style: `background: var(--${category})`});
    item.append(category);
  });
  make($("#legend"), "li", {class: "soft"}, "dotted: the card");
  onSetting = update;
  update();
});
