// Shows the snapshots that the server sends. Text of engines is only ever set as text.
"use strict";

const MARKS = {pass: "✓", fail: "✗", "gap-fixed": "✗", unknown: "?", blocked: "⊘", "kit-error": "!"};
const SVG = "http://www.w3.org/2000/svg";
const by = (id) => document.getElementById(id);

function amount(value) {
  for (const [size, unit] of [[1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
    if (value >= size) return Number((value / size).toPrecision(3)) + unit;
  }
  return String(Math.round(value));
}

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function badge(verdict, count) {
  const words = [MARKS[verdict] || "–", ...(count === undefined ? [] : [count]), verdict];
  return element("span", words.join(" "), "badge " + verdict);
}

function rows(id, made) {
  by(id).replaceChildren(...made.map((cells) => {
    const row = element("tr");
    row.append(...cells.map((cell) => {
      const place = element("td");
      place.append(cell);
      return place;
    }));
    return row;
  }));
}

function chart(seconds) {
  const most = Math.max(1, ...seconds.flatMap((one) => [one.published, one.served, one.outputs]));
  const x = (at) => 60 + (730 * at) / Math.max(seconds.length - 1, 1);
  const y = (value) => 104 - (92 * value) / most;
  const parts = [["published", "published"], ["served", "fetched"], ["outputs", "outputs"]].map(
    ([key, kind]) => {
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("class", kind);
      const points = seconds.map((one, at) => `${x(at).toFixed(1)} ${y(one[key]).toFixed(1)}`);
      path.setAttribute("d", points.length > 1 ? "M" + points.join("L") : "");
      return path;
    });
  for (const [at, text] of [[20, amount(most)], [106, "0"]]) {
    const label = document.createElementNS(SVG, "text");
    label.setAttribute("x", "54");
    label.setAttribute("y", at);
    label.setAttribute("text-anchor", "end");
    label.textContent = text;
    parts.push(label);
  }
  by("chart").replaceChildren(...parts);
}

function show(now) {
  if (!now.engine) return;
  document.title = `${now.engine}: ${now.verdict || "under way"}`;
  by("engine").textContent = now.engine;
  by("head").className = now.verdict;
  by("verdict").replaceWith(Object.assign(
    now.verdict ? badge(now.verdict) : element("span"), {id: "verdict"}));
  by("doing").textContent = now.ended
    ? `ended after ${now.took_s.toFixed(0)} s, ${now.played} runs`
    : `so far: ${now.tier}, ${now.took_s.toFixed(0)} s, ${now.played} runs played`;
  by("report").hidden = !now.ended || now.over;
  by("counts").replaceChildren(...now.counts.flatMap(([one, count]) => [badge(one, count), " "]));
  by("facts").textContent = Object.entries(now.facts).filter(([, text]) => text)
    .map(([name, text]) => `${name} ${text}`).join(", ");
  chart(now.seconds);
  const wait = (ms) => (ms === null ? "" : `${amount(ms)} ms`);
  rows("runs", now.runs.map((run) => [
    run.name, `${amount(run.served)} of ${amount(run.records)}`, amount(run.in), amount(run.out),
    amount(run.backlog), wait(run.wait_ms), `${(run.memory / 2 ** 20).toFixed(0)} MiB`,
    String(run.faults)]));
  rows("verdicts", now.verdicts.map((one) => [
    badge(one.verdict), element("span", one.id, "id"),
    [one.reason, one.verdict === "pass" ? "" : one.said].filter(Boolean).join(": ")]));
  rows("faults", now.faults.map((one) => [`${one.at_s.toFixed(1)} s`, one.run, one.said]));
}

const source = new EventSource("/events");
source.onmessage = (message) => {
  const now = JSON.parse(message.data);
  show(now);
  if (now.over) source.close();
};
