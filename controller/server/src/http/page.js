// The controller's page: it draws what /events sends. Data is never inserted into the page as HTML.
"use strict";

const EVENTS_MAX = 100;
const NO_LIMIT = 4294967295;
const COLOURS = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#44bb99"];
const SVG = "http://www.w3.org/2000/svg";

const at = (id) => document.getElementById(id);

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function shape(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const jobName = (name) => (name.tenant ? `${name.tenant}/${name.job}` : name.job);
const count = (number) => number.toLocaleString("en").replaceAll(",", "\u2009");
const limit = (number) => (number === NO_LIMIT ? "\u2013" : count(number));

// A name has the same colour on every page and at all times.
function colour(name) {
  let hash = 7;
  for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) >>> 0;
  return COLOURS[hash % COLOURS.length];
}

function rate(bits) {
  if (bits === null) return "\u2013";
  for (const [unit, size] of [["Tbit/s", 1e12], ["Gbit/s", 1e9], ["Mbit/s", 1e6]]) {
    if (bits >= size) return `${bits / size} ${unit}`;
  }
  return `${bits} bit/s`;
}

// Fills a table. A cell is a text or an existing element; numbers are right-aligned.
function fill(id, rows, empty) {
  const body = at(id).tBodies[0];
  const columns = at(id).tHead.rows[0].cells.length;
  const made = rows.map((cells) => {
    const row = element("tr");
    for (const cell of cells) {
      const cellElement = element("td", cell.number ? "n" : cell.className);
      if (cell instanceof Element) cellElement.append(cell);
      else cellElement.textContent = cell.text ?? cell;
      row.append(cellElement);
    }
    return row;
  });
  if (made.length === 0) {
    const row = element("tr");
    const cellElement = element("td", "empty", empty);
    cellElement.colSpan = columns;
    row.append(cellElement);
    made.push(row);
  }
  body.replaceChildren(...made);
}

const number = (text) => ({ text: String(text), number: true });
const word = (text) => ({ text, className: text });

function switchState(item) {
  if (!item.up) return "down";
  return item.drained ? "drained" : "up";
}

// Rows of the drawing: spines above, leaves and all others below.
function levels(switches) {
  const spines = switches.filter((item) => item.role === "spine");
  const others = switches.filter((item) => item.role !== "spine");
  return [spines, others].filter((level) => level.length > 0);
}

function drawTopology(snapshot) {
  const rows = levels(snapshot.switches);
  const width = Math.max(420, ...rows.map((row) => row.length * 130));
  const height = rows.length * 110 + 10;
  const places = new Map();
  rows.forEach((row, level) => row.forEach((item, index) => {
    places.set(item.name, { x: (width * (index + 0.5)) / row.length, y: 50 + level * 110 });
  }));
  const picture = at("topology");
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const drawn = [];
  for (const link of snapshot.links) {
    const [a, b] = [places.get(link.a), places.get(link.b)];
    if (!a || !b) continue;
    const line = shape("line", {
      x1: a.x, y1: a.y, x2: b.x, y2: b.y, "stroke-width": 1 + Math.min(link.trees, 8), class: link.up ? "link" : "link down",
    });
    line.append(shape("title", {}, `${link.a} \u2013 ${link.b}: ${link.trees} trees, ${rate(link.rate)}`));
    drawn.push(line);
  }
  for (const item of snapshot.switches) {
    const { x, y } = places.get(item.name);
    const group = shape("g", { class: `switch ${switchState(item)}`, "data-name": item.name });
    group.append(shape("rect", { x: x - 52, y: y - 26, width: 104, height: 52, rx: 6 }));
    group.append(shape("text", { x, y: y - 6 }, item.name));
    group.append(shape("text", { x, y: y + 8, class: "small" }, `${item.kind}, ${switchState(item)}`));
    const used = item.slots ? item.slots_used / item.slots : 0;
    group.append(shape("rect", { x: x - 44, y: y + 14, width: 88 * used, height: 5, class: "used" }));
    if (item.down_reason) group.append(shape("title", {}, item.down_reason));
    drawn.push(group);
  }
  picture.replaceChildren(...drawn);
}

function drawStrips(snapshot) {
  at("strips").replaceChildren(...snapshot.switches.map((item) => {
    const strip = element("div", "strip");
    strip.dataset.name = item.name;
    const bar = element("div", "bar");
    for (const range of item.ranges) {
      const name = jobName(range.job);
      const held = element("div", "range");
      held.style.left = `${(100 * range.first) / item.slots}%`;
      held.style.width = `${(100 * range.slots) / item.slots}%`;
      held.style.background = colour(name);
      held.title = `${name}, tree ${range.tree}: slots ${range.first} to ${range.first + range.slots - 1}`;
      bar.append(held);
    }
    strip.append(
      element("div", "name", item.name), bar, element("div", "count", `${count(item.slots_used)} of ${count(item.slots)}`),
    );
    return strip;
  }));
}

function drawTables(snapshot) {
  fill("jobs", snapshot.jobs.map((job) => {
    const name = jobName(job.name);
    const mark = element("span", "mark");
    mark.style.background = colour(name);
    const places = job.trees.flatMap((tree) => tree.places);
    const slots = places.reduce((sum, place) => sum + place.slots, 0);
    const switches = [...new Set(places.map((place) => place.switch))].join(", ");
    return [
      mark, name, word(job.state), number(job.spec.world), job.spec.mode, number(job.spec.trees), number(count(slots)),
      number(job.epoch), switches,
    ];
  }), "no job is forming or running");
  fill("tenants", snapshot.tenants.map((tenant) => [
    tenant.name, number(count(tenant.used.slots)), number(limit(tenant.quota.slots)), number(count(tenant.used.jobs)),
    number(limit(tenant.quota.jobs)), number(count(tenant.used.workers)), number(limit(tenant.quota.workers)),
    number(tenant.weight), number(tenant.priority),
  ]), "no tenants");
  fill("links", snapshot.links.map((link) => [
    `${link.a} \u2013 ${link.b}`, word(link.up ? "up" : "down"), number(rate(link.rate)), number(link.trees),
  ]), "no links between switches");
  const drops = snapshot.switches.flatMap((item) => item.packets
    .filter(([reason, packets]) => reason !== "none" && packets > 0)
    .map(([reason, packets]) => ({ reason, name: item.name, packets })));
  drops.sort((a, b) => b.packets - a.packets);
  fill("drops", drops.map((drop) => [drop.reason, drop.name, number(count(drop.packets))]), "none reported by the switches");
}

function draw(snapshot) {
  if (!snapshot.switches) return;
  const up = snapshot.switches.filter((item) => item.up).length;
  const live = snapshot.jobs.length;
  at("summary").textContent =
    `${up} of ${snapshot.switches.length} switches up, ${live} jobs forming or running, ${snapshot.sessions} workers' sessions`;
  drawTopology(snapshot);
  drawStrips(snapshot);
  drawTables(snapshot);
  document.body.dataset.drawn = String(snapshot.taken_ms);
}

function add(event) {
  const line = element("li");
  const when = element("time", "", new Date(event.at_ms).toISOString().slice(11, 19));
  when.title = new Date(event.at_ms).toISOString();
  const message = element("span", "", event.message);
  message.title = event.message;
  line.append(when, element("span", "kind", event.kind), message);
  const list = at("events");
  list.prepend(line);
  while (list.children.length > EVENTS_MAX) list.lastChild.remove();
}

function connected(yes) {
  at("state").textContent = yes ? "live" : "not connected";
  at("state").className = yes ? "connected" : "disconnected";
}

let newest = 0;
const stream = new EventSource("events");
stream.addEventListener("open", () => connected(true));
stream.addEventListener("error", () => connected(false));
stream.addEventListener("snapshot", (message) => draw(JSON.parse(message.data)));
stream.addEventListener("controller_event", (message) => {
  const event = JSON.parse(message.data);
  // A new connection begins with earlier events; a restarted controller counts from 1.
  if (event.number > newest || event.number === 1) {
    newest = event.number;
    add(event);
  }
});
