// The resource use of a running workspace, as small plots, and its listening ports.
import { h } from "/assets/dom.js";
import { api, binary, size, t } from "/assets/text.js";
import { changed, state } from "/assets/store.js";

const pause = 2_000; // milliseconds between two samples
const kept = 60; // samples
let about = ""; // the id of the workspace
let samples = []; // answers of the API, the oldest first
let asking = 0;

function stop() {
  clearTimeout(asking);
  asking = 0;
  samples = [];
}

// Polls while the workspace is visible and running. A stopped one has nothing to show.
async function ask() {
  const id = about;
  try {
    const sample = document.hidden ? null : await api("GET", `workspaces/${id}/stats`);
    if (id !== about) return;
    if (sample) samples = [...samples.slice(1 - kept), sample];
  } catch {
    if (id !== about) return;
    samples = []; // its state is shown elsewhere
  }
  changed();
  asking = setTimeout(ask, pause);
}

/** Sets the visible workspace; empty for none. */
export function look(id) {
  const now = state.workspaces.get(id)?.phase === "RUNNING" || state.others.get(id)?.phase === "RUNNING" ? id : "";
  if (now === about) return;
  stop();
  about = now;
  if (about) ask();
}

// How many cores were busy before each sample but the first.
const cores = () => samples.slice(1).map((sample, i) => {
  const seconds = (Date.parse(sample.at) - Date.parse(samples[i].at)) / 1000;
  return seconds > 0 ? Math.max(0, (sample.cpu.seconds - samples[i].cpu.seconds) / seconds) : 0;
});

const width = 120;
const height = 32;

// The newest value is at the right edge; at the limit the line is at full height.
function plot(name, values, limit, text) {
  const top = Math.max(limit ?? 0, ...values) || 1;
  const step = width / (kept - 1);
  const points = values.map((value, i) =>
    `${(width - (values.length - 1 - i) * step).toFixed(1)} ${(height - 1 - (value / top) * (height - 2)).toFixed(1)}`);
  return h("div", { class: "plot" }, h("p", null, h("span", { class: "hint" }, name), h("span", { class: "value" }, text)),
    h("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      points.length > 1 && h("path", { d: `M${points.join("L")}` })));
}

// A limit of 2 GiB is shown as configured: in other units it would be 2.1 GB.
function ofLimit(used, limit, units) {
  const said = limit && limit % 2 ** 20 === 0 ? binary : units;
  return limit ? t("size_of", { Size: said(used), Limit: said(limit) }) : t("size_only", { Size: said(used) });
}

const port = ({ port: number, url }) => h("li", null, url
  ? h("a", { class: "button", href: url, target: "_blank", rel: "noopener" }, t("port", { Port: number })) : t("port", { Port: number }));

/** The part of the workspace's page; nothing while there are no numbers. */
export function stats() {
  const last = samples.at(-1);
  if (!last) return null;
  const busy = cores();
  return h("section", { class: "panel stats", "aria-labelledby": "title-stats", "data-key": "stats" },
    h("h2", { id: "title-stats" }, t("parts.stats")),
    h("div", { class: "plots" },
      last.cpu.seconds !== null && plot(t("cpu"), busy, last.cpu.limit_cores, busy.length > 0 ? t("cores", { Count: busy.at(-1).toFixed(2) }) : "…"),
      last.memory.used_bytes !== null && plot(t("memory"), samples.map((s) => s.memory.used_bytes ?? 0), last.memory.limit_bytes, ofLimit(last.memory.used_bytes, last.memory.limit_bytes, binary)),
      last.home.used_bytes !== null && plot(t("files"), samples.map((s) => s.home.used_bytes ?? 0), last.home.limit_bytes,
        ofLimit(last.home.used_bytes, last.home.limit_bytes, size))),
    last.ports.length > 0 && [h("h3", null, t("ports")), h("ul", { class: "row" }, last.ports.map(port))]);
}
