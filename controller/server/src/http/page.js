// The controller's page: it draws what /events sends. Data is never inserted into the page as HTML.
"use strict";

const EVENTS_MAX = 100;
// Snapshots of which a job's goodput is kept: one a second.
const COURSE_MAX = 180;
// Workers of a switch that are drawn singly.
const WORKERS_MAX = 24;
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

function bytesPerSecond(bytes) {
  for (const [unit, size] of [["TB/s", 1e12], ["GB/s", 1e9], ["MB/s", 1e6], ["kB/s", 1e3]]) {
    if (bytes >= size) return `${(bytes / size).toPrecision(3)} ${unit}`;
  }
  return `${bytes} B/s`;
}

// A fraction that is not 0 is not shown as 0.
function percent(fraction) {
  const value = 100 * fraction;
  return value > 0 && value < 0.01 ? "<0.01 %" : `${value.toFixed(2)} %`;
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

// The state of a switch or a link.
function stateOf(item) {
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
      x1: a.x, y1: a.y, x2: b.x, y2: b.y, "stroke-width": 1 + Math.min(link.trees, 8), class: `link ${stateOf(link)}`,
    });
    line.append(shape("title", {}, `${link.a} \u2013 ${link.b}: ${link.trees} trees, ${rate(link.demand)} demanded of ${rate(link.rate)}`));
    drawn.push(line);
  }
  for (const item of snapshot.switches) {
    const { x, y } = places.get(item.name);
    const group = shape("g", { class: `switch ${stateOf(item)}`, "data-name": item.name });
    group.append(shape("rect", { x: x - 52, y: y - 26, width: 104, height: 52, rx: 6 }));
    group.append(shape("text", { x, y: y - 6 }, item.name));
    group.append(shape("text", { x, y: y + 8, class: "small" }, `${item.kind}, ${stateOf(item)}`));
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

const counted = (items, noun) => `${count(items)} ${noun}${items === 1 ? "" : "s"}`;
const used = (bytes, bits) => (bits ? percent((8 * bytes) / bits) : "");

// A link between switches.
function linkRow(link) {
  const { traffic } = link;
  return [
    `${link.a} \u2013 ${link.b}`, word(stateOf(link)), number(counted(link.trees, "tree")),
    number(traffic ? bytesPerSecond(traffic.bytes_per_second) : ""), number(rate(link.rate)),
    number(traffic ? used(traffic.bytes_per_second, link.rate) : ""), number(traffic ? percent(traffic.retransmission_ratio) : ""),
  ];
}

// The link of a host to a switch, of which the topology has no rate.
function accessRow(link) {
  const { traffic } = link;
  return [
    `${link.host} \u2013 ${link.switch}`, "", number(counted(link.workers, "worker")),
    number(traffic ? bytesPerSecond(traffic.bytes_per_second) : ""), number(""), number(""),
    number(traffic ? percent(traffic.retransmission_ratio) : ""),
  ];
}

function drawTables(snapshot) {
  fill("tenants", snapshot.tenants.map((tenant) => [
    tenant.name, number(count(tenant.used.slots)), number(limit(tenant.quota.slots)), number(count(tenant.used.jobs)),
    number(limit(tenant.quota.jobs)), number(count(tenant.used.workers)), number(limit(tenant.quota.workers)),
    number(tenant.weight), number(tenant.priority),
  ]), "no tenants");
  fill("links", snapshot.links.map(linkRow).concat(snapshot.access.map(accessRow)), "no links");
  const drops = snapshot.switches.flatMap((item) => item.packets
    .filter(([reason, packets]) => reason !== "none" && packets > 0)
    .map(([reason, packets]) => ({ reason, name: item.name, packets })));
  drops.sort((a, b) => b.packets - a.packets);
  fill("drops", drops.map((drop) => [drop.reason, drop.name, number(count(drop.packets))]), "none reported by the switches");
}

// The goodput of each job, by name: [Unix time in ms, bytes a second], the oldest first.
const courses = new Map();

function note(snapshot) {
  const names = new Set(snapshot.jobs.map((job) => jobName(job.name)));
  for (const name of courses.keys()) if (!names.has(name)) courses.delete(name);
  for (const job of snapshot.jobs) {
    if (!job.traffic) continue;
    const name = jobName(job.name);
    const course = courses.get(name) ?? [];
    if (course.length > 0 && course.at(-1)[0] >= snapshot.taken_ms) continue;
    course.push([snapshot.taken_ms, job.traffic.goodput]);
    if (course.length > COURSE_MAX) course.shift();
    courses.set(name, course);
  }
}

// The line of a job's goodput in a box; time ends at the right, as wide as all that is kept.
function courseLine(name, box, most) {
  const course = courses.get(name) ?? [];
  if (course.length < 2) return null;
  const end = course.at(-1)[0];
  const points = course.map(([at_ms, goodput]) => {
    const x = box.x + box.width * (1 - (end - at_ms) / (1000 * COURSE_MAX));
    const y = box.y + box.height * (1 - goodput / Math.max(most, 1));
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  return shape("polyline", { points: points.join(" "), class: "course", stroke: colour(name) });
}

const greatest = (name) => Math.max(0, ...(courses.get(name) ?? []).map(([, goodput]) => goodput));

// Jobs: the rows by name, which are kept so that the focus stays; and the job that is shown below.
const jobRows = new Map();
let shownJob = null;
let latest = null;

function jobRow(name) {
  const row = element("tr");
  row.dataset.job = name;
  const mark = element("span", "mark");
  mark.style.background = colour(name);
  const button = element("button", "job", name);
  button.type = "button";
  const spark = shape("svg", { class: "spark", viewBox: "0 0 120 20", preserveAspectRatio: "none", "aria-hidden": "true" });
  for (const content of [mark, button, null, "n", "n", spark, "n", null, "n", "n", "n", null]) {
    const cell = element("td", content === "n" ? "n" : "");
    if (content instanceof Element) cell.append(content);
    row.append(cell);
  }
  return row;
}

const lasting = (job) => job.stalls.filter((stall) => stall.ended === null);

// The state of a job, and whether it advances.
function jobState(job) {
  if (lasting(job).length > 0) return "stalled";
  return job.findings.length > 0 ? "slowed" : job.state;
}

function fillJobRow(row, job) {
  const name = jobName(job.name);
  const places = job.trees.flatMap((tree) => tree.places);
  const slots = places.reduce((sum, place) => sum + place.slots, 0);
  const shared = places.some((place) => place.shared) ? ", shared" : "";
  const switches = [...new Set(places.map((place) => place.switch))].join(", ");
  const traffic = job.traffic;
  const texts = [
    null, null, jobState(job), job.spec.world, traffic ? bytesPerSecond(traffic.goodput) : "\u2013", null,
    traffic ? percent(traffic.retransmission_ratio) : "\u2013", job.spec.mode, job.spec.trees, count(slots) + shared, job.epoch, switches,
  ];
  texts.forEach((text, index) => {
    if (text !== null) row.cells[index].textContent = String(text);
  });
  row.cells[2].className = jobState(job);
  const line = courseLine(name, { x: 1, y: 1, width: 118, height: 18 }, greatest(name));
  row.querySelector("svg").replaceChildren(...(line ? [line] : []));
}

function drawJobs(snapshot) {
  const body = at("jobs").tBodies[0];
  const names = snapshot.jobs.map((job) => jobName(job.name));
  for (const name of jobRows.keys()) if (!names.includes(name)) jobRows.delete(name);
  if (!names.includes(shownJob)) shownJob = names[0] ?? null;
  const rows = snapshot.jobs.map((job, index) => {
    if (!jobRows.has(names[index])) jobRows.set(names[index], jobRow(names[index]));
    const row = jobRows.get(names[index]);
    fillJobRow(row, job);
    return row;
  });
  if (rows.length === 0) return fill("jobs", [], "no job is forming or running");
  const same = rows.length === body.rows.length && rows.every((row, index) => row === body.rows[index]);
  if (!same) {
    const focused = document.activeElement?.closest("#jobs tr")?.dataset.job;
    body.replaceChildren(...rows);
    if (focused !== undefined) (jobRows.get(focused) ?? rows[0]).querySelector("button").focus();
  }
  markJobs();
}

// Tab reaches one job of the table: the focused one, or else the one that is shown.
function markJobs() {
  const focused = document.activeElement?.closest("#jobs tr")?.dataset.job;
  for (const [name, row] of jobRows) {
    const button = row.querySelector("button");
    button.setAttribute("aria-pressed", String(name === shownJob));
    button.tabIndex = name === (focused ?? shownJob) ? 0 : -1;
  }
}

function moveFocus(event) {
  const buttons = [...at("jobs").querySelectorAll("button.job")];
  const index = buttons.indexOf(document.activeElement);
  const to = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: buttons.length - 1 }[event.key];
  if (index < 0 || to === undefined) return;
  event.preventDefault();
  buttons[Math.min(Math.max(to, 0), buttons.length - 1)].focus();
}

function showJob(event) {
  const row = event.target.closest("tr[data-job]");
  if (!row) return;
  shownJob = row.dataset.job;
  markJobs();
  drawJob(latest);
}

at("jobs").addEventListener("keydown", moveFocus);
at("jobs").addEventListener("focusin", markJobs);
// Enter and Space click a button.
at("jobs").addEventListener("click", showJob);

function drawJob(snapshot) {
  const job = snapshot.jobs.find((job) => jobName(job.name) === shownJob);
  at("job-part").hidden = !job;
  if (!job) return;
  at("job-title").textContent = `Job ${shownJob}`;
  const groups = job.groups.flatMap((group) => group.findings.map((finding) => `group ${group.group}: ${finding.text}`));
  const texts = [...job.findings.map((finding) => finding.text), ...groups];
  at("findings").replaceChildren(...texts.map((text) => element("li", "", text)));
  drawStalls(job);
  drawSharing(job);
  at("pattern").textContent = patternText(job);
  at("paths").textContent = job.paths ? pathsText(job.paths) : "";
  drawGoodput(job);
  drawTrees(job);
}

const timeOfDay = (unix_ms) => new Date(unix_ms).toISOString().slice(11, 19);

// The beginning of what `netfold job explain` prints of each stall.
function stallText(stall) {
  const group = stall.group ? `group ${stall.group}, ` : "";
  const lasts = `${((stall.as_of_ms - stall.began_ms) / 1000).toFixed(1)} s`;
  const began = `${timeOfDay(stall.began_ms)} UTC`;
  const when = stall.ended === null ? `since ${began}, for ${lasts}` : `from ${began} on, for ${lasts}; over: ${stall.ended}`;
  return `${group}tree ${stall.tree} stalled ${when}. Cause: ${stall.conclusion}`;
}

function drawStalls(job) {
  at("stalls").replaceChildren(
    ...job.stalls.map((stall) => element("li", stall.ended === null ? "lasts" : "over", stallText(stall))),
  );
  at("explain").hidden = job.stalls.length === 0;
  at("explain-command").textContent = `netfold job explain ${jobName(job.name)}`;
}

// Whether a tree shares slots, and why; nothing where the controller has not decided about it.
function sharingText(group, tree) {
  if (!tree.sharing) return [];
  const spilled = tree.spilled ? `; ${counted(tree.spilled, "contribution")} found no slot and went to the aggregator` : "";
  return [`${group}tree ${tree.tree} ${tree.sharing}${spilled}`];
}

function drawSharing(job) {
  const groups = job.groups.flatMap((group) => group.trees.flatMap((tree) => sharingText(`group ${group.group}, `, tree)));
  const texts = job.trees.flatMap((tree) => sharingText("", tree)).concat(groups);
  at("sharing").replaceChildren(...texts.map((text) => element("li", "", text)));
}

function patternText(job) {
  const ms = (micros) => `${(micros / 1000).toFixed(1)} ms`;
  const pattern = job.pattern;
  const measured = pattern
    ? `An iteration every ${ms(pattern.period_us)}: computes ${ms(pattern.compute_us)}, communicates ${ms(pattern.send_us)} (confidence ${Math.round(100 * pattern.confidence)} %).`
    : "";
  const decided = [job.schedule ? `Schedule: ${job.schedule}.` : "", job.placement ? `Placement: ${job.placement}.` : ""];
  return [measured, ...decided].filter(Boolean).join(" ");
}

// Paths that workers avoid, those of a rank together.
function pathsText(paths) {
  const ranks = new Map();
  for (const avoided of paths.avoided) {
    const took = avoided.round_trip_us ? `, ${(avoided.round_trip_us / 1000).toFixed(1)} ms` : "";
    const path = `${avoided.path} (${percent(avoided.share)} of its packets${took})`;
    ranks.set(avoided.rank, [...(ranks.get(avoided.rank) ?? []), path]);
  }
  const avoided = [...ranks].map(([rank, paths]) => `rank ${rank} avoids ${paths.join(", ")}`);
  const more = paths.avoided_count - paths.avoided.length;
  if (more > 0) avoided.push(`${count(more)} more are avoided`);
  const all = `Each worker has ${paths.udp_ports} paths (${paths.policy}).`;
  return avoided.length ? `${all} Paths avoided: ${avoided.join("; ")}.` : `${all} None is avoided.`;
}

function drawGoodput(job) {
  const [width, height] = [420, 150];
  const box = { x: 8, y: 24, width: width - 16, height: height - 48 };
  const most = greatest(shownJob);
  const now = job.traffic ? bytesPerSecond(job.traffic.goodput) : "not reported";
  const picture = at("goodput");
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  picture.setAttribute("aria-label", `goodput of ${shownJob}: ${now}, at most ${bytesPerSecond(most)}`);
  const base = box.y + box.height;
  const drawn = [
    shape("line", { x1: box.x, y1: base, x2: box.x + box.width, y2: base, class: "axis" }),
    shape("line", { x1: box.x, y1: box.y, x2: box.x + box.width, y2: box.y, class: "axis" }),
    shape("text", { x: box.x, y: box.y - 8, class: "small start" }, `most: ${bytesPerSecond(most)}`),
    shape("text", { x: box.x + box.width, y: box.y - 8, class: "end" }, `now: ${now}`),
    shape("text", { x: box.x, y: height - 6, class: "small start" }, "3 min ago"),
    shape("text", { x: box.x + box.width, y: height - 6, class: "small end" }, "now"),
  ];
  const line = courseLine(shownJob, box, most);
  if (line) drawn.push(line);
  picture.replaceChildren(...drawn);
}

// Positions of a tree's switches: those without switches below side by side, in the order of the tree; parents above their children.
function layTree(tree) {
  const below = new Map(tree.places.map((place) => [place.switch, []]));
  const roots = [];
  for (const place of tree.places) (below.get(place.parent) ?? roots).push(place);
  const laid = new Map();
  let columns = 0;
  let depth = 0;
  const lay = (place, level) => {
    depth = Math.max(depth, level + 1);
    const children = below.get(place.switch).map((child) => lay(child, level + 1));
    const column = children.length ? children.reduce((sum, x) => sum + x, 0) / children.length : columns++;
    laid.set(place.switch, { column, level });
    return column;
  };
  roots.forEach((root) => lay(root, 0));
  return { laid, columns: Math.max(columns, 1), depth };
}

function drawWorkers(tree, place, x, y, slow) {
  const workers = tree.members.filter((member) => member.switch === place.switch);
  if (workers.length > WORKERS_MAX) return [shape("text", { x, y: y + 4, class: "small" }, `${workers.length} workers`)];
  const line = Math.min(workers.length, 8);
  return workers.map((member, index) => {
    const circle = shape("circle", {
      cx: x + ((index % 8) - (line - 1) / 2) * 12, cy: y + Math.floor(index / 8) * 12, r: 4, class: `worker ${member.state}${slow.has(member.rank) ? " slow" : ""}`,
    });
    const lost = member.counters ? `, ${count(member.counters.packets_retransmitted)} packets retransmitted` : "";
    circle.append(shape("title", {}, `rank ${member.rank}, ${member.endpoint}: ${member.state}${lost}`));
    return circle;
  });
}

function drawTree(tree, top, slow) {
  const { laid, columns, depth } = layTree(tree);
  const middle = (name) => {
    const { column, level } = laid.get(name);
    return { x: 60 + column * 120, y: top + 36 + level * 64 };
  };
  const lines = [];
  const nodes = [];
  for (const place of tree.places) {
    if (!laid.has(place.switch)) continue;
    const { x, y } = middle(place.switch);
    if (place.parent && laid.has(place.parent)) {
      const parent = middle(place.parent);
      lines.push(shape("line", { x1: parent.x, y1: parent.y, x2: x, y2: y, "stroke-width": 1.5 }));
    }
    const node = shape("g", { class: "switch", "data-name": place.switch });
    node.append(shape("rect", { x: x - 50, y: y - 14, width: 100, height: 28, rx: 6 }), shape("text", { x, y: y + 4 }, place.switch));
    const last = place.first_slot + place.slots - 1;
    node.append(shape("title", {}, `${place.switch}: slots ${place.first_slot} to ${last}${place.shared ? ", shared" : ""}, ${place.workers} workers`));
    nodes.push(node, ...drawWorkers(tree, place, x, y + 26, slow));
  }
  const title = shape("text", { x: 8, y: top + 12, class: "small start" }, `tree ${tree.tree}: ${tree.phase}, epoch ${tree.epoch ?? "none"}`);
  return { drawn: [title, ...lines, ...nodes], width: columns * 120, height: 36 + Math.max(depth, 1) * 64 + 20 };
}

function drawTrees(job) {
  const picture = at("tree");
  const drawn = [];
  const slow = new Set(job.findings.map((finding) => finding.rank));
  let [width, height] = [420, 0];
  for (const tree of job.trees) {
    const part = drawTree(tree, height, slow);
    drawn.push(...part.drawn);
    width = Math.max(width, part.width);
    height += part.height;
  }
  picture.setAttribute("viewBox", `0 0 ${width} ${Math.max(height, 1)}`);
  const switches = [...new Set(job.trees.flatMap((tree) => tree.places.map((place) => place.switch)))];
  picture.setAttribute("aria-label", `aggregation tree of ${shownJob}: ${switches.join(", ") || "no place yet"}`);
  picture.replaceChildren(...drawn);
}

// Parts that are wider or higher than shown can be scrolled by the keyboard.
function reachScrolled() {
  for (const part of document.querySelectorAll("section, #events")) {
    const scrolls = part.scrollWidth > part.clientWidth || part.scrollHeight > part.clientHeight;
    if (scrolls) part.tabIndex = 0;
    else if (part !== document.activeElement) part.removeAttribute("tabindex");
  }
}

window.addEventListener("resize", reachScrolled);

function draw(snapshot) {
  if (!snapshot.switches) return;
  latest = snapshot;
  note(snapshot);
  const up = snapshot.switches.filter((item) => item.up).length;
  const live = snapshot.jobs.length;
  at("summary").textContent =
    `${up} of ${snapshot.switches.length} switches up, ${live} jobs forming or running, ${snapshot.sessions} workers' sessions`;
  drawTopology(snapshot);
  drawStrips(snapshot);
  drawJobs(snapshot);
  drawJob(snapshot);
  drawTables(snapshot);
  reachScrolled();
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
