// The page of one workspace, with an address of its own.
import { h, icon, show } from "/assets/dom.js";
import { api, date, explain, t } from "/assets/text.js";
import { activity, doings, marks, phase, refusal, star } from "/assets/card.js";
import { act, offered } from "/assets/actions.js";
import { archives } from "/assets/archives.js";
import { explanation } from "/assets/explanation.js";
import { history } from "/assets/history.js";
import { imageIcon, imageName } from "/assets/images.js";
import { leave, logs } from "/assets/logs.js";
import { nameOr } from "/assets/rename.js";
import { onRoute, pageOf, route, view } from "/assets/router.js";
import { look, stats } from "/assets/stats.js";
import { sizeText, usedTime } from "/assets/status.js";
import { changed, signedOut, state, user } from "/assets/store.js";

const parts = { explain: explanation, archives, history };
const pause = 10_000; // milliseconds between looks at a workspace of another user
let looking = ""; // the id of the workspace being read
let about = ""; // the id, version and other values for which the parts were read
let read = {}; // part → { data } or { error }
let failure = null; // of reading a workspace of another user: { id, error }

const known = (id) => state.workspaces.get(id) ?? state.others.get(id);

async function readOther(id) {
  const here = route();
  if (state.workspaces.has(id) || here.name !== "workspace" || here.id !== id) return;
  try {
    state.others.set(id, await api("GET", `workspaces/${id}`));
    failure = null;
  } catch (error) {
    if (signedOut(error)) return;
    state.others.delete(id);
    failure = { id, error };
  }
  changed();
}

// Reads the parts again when the workspace has changed.
function readParts(w) {
  const now = [w.id, w.updated_at, w.phase, w.operation, w.archive_key, w.revert?.key, w.doze_at].join(" ");
  if (about === now) return;
  if (!about.startsWith(`${w.id} `)) read = {};
  about = now;
  for (const [name, { path }] of Object.entries(parts)) {
    api("GET", `workspaces/${w.id}/${path}`).then((data) => ({ data }), (error) => ({ error })).then((answer) => {
      if (about !== now) return; // an older answer
      read = { ...read, [name]: answer };
      changed();
    });
  }
}

function part(name, w) {
  const found = read[name];
  const body = !found ? h("div", { class: "skeleton line" })
    : found.error ? h("p", { class: "notice" }, explain(found.error)) : parts[name].draw(found.data, w);
  return body && h("section", { class: `panel ${name}`, "aria-labelledby": `title-${name}`, "data-key": name },
    h("h2", { id: `title-${name}` }, t(`parts.${name}`)), body);
}

const fact = (name, value) => value && [h("dt", null, name), h("dd", null, value)];

function facts(w) {
  return h("section", { class: "panel facts", "aria-labelledby": "title-facts", "data-key": "facts" },
    h("h2", { id: "title-facts" }, t("parts.facts")),
    h("dl", null, fact(t("owner_title"), w.owner_username && h("bdi", null, w.owner_username)),
      fact(t("image"), imageName(w.image_ref) && h("bdi", null, imageName(w.image_ref))),
      fact(t("git"), w.git_url && h("bdi", null, w.git_url)),
      fact(t("files"), sizeText(w)), fact(t("column_used"), usedTime(w)),
      fact(t("created_title"), t("at", { Time: date(w.created_at) })),
      fact(t("memo"), w.memo && h("bdi", null, w.memo)), fact(t("workspace_id"), h("code", null, w.id))));
}

function page(w) {
  readParts(w);
  return h("div", { class: "workspace", ...marks(w), "data-key": w.id },
    h("p", { class: "back" }, h("a", { href: "#/" }, icon("back"), t("workspaces"))),
    h("div", { class: "head" }, h("span", { class: "tile" }, icon(imageIcon(w.image_ref))),
      h("div", { class: "title" }, h("h1", null, nameOr(w, [star(w), h("bdi", null, w.name)])),
        w.description && h("p", { class: "description" }, w.description)),
      phase(w), doings(w, ["details"])),
    h("div", { class: "condition" }, activity(w), refusal(w)),
    h("div", { class: "columns" },
      h("div", { class: "main" }, part("explain", w), logs(w), stats(), part("archives", w)),
      h("div", { class: "side" }, facts(w), part("history", w))));
}

function missing(id) {
  const gone = state.deleted.some((w) => w.id === id);
  const text = failure?.id === id ? explain(failure.error) : gone ? t("is_deleted") : "";
  return h("div", { class: "empty" }, text ? h("p", null, text) : h("div", { class: "skeleton line" }),
    h("a", { class: "button", href: "#/" }, t("to_list")));
}

// Actions that an address may start immediately: the page of a failed workspace links here.
const doable = ["edit", "report"];

function begin(w, asked) {
  window.history.replaceState(null, "", pageOf(w.id));
  const name = asked === "report" && user.admin ? "recover" : asked; // administrators have no one to report to
  if (offered(w).includes(name)) act(w, name);
}

view("workspace", (place, id) => {
  const w = known(id);
  look(id);
  if (!w && state.loaded && looking !== id) {
    looking = id;
    readOther(id);
  }
  place.setAttribute("aria-busy", String(!w && failure?.id !== id && !state.loaded));
  show(place, w ? page(w) : missing(id));
  if (w) document.title = t("title_of", { Name: w.name });
  if (w && doable.includes(route().doing)) begin(w, route().doing);
});
onRoute(({ name, id }) => {
  leave(name === "workspace" ? id : "");
  if (name !== "workspace") look("");
  state.others.clear();
  failure = null;
  looking = "";
});
if (user.admin) setInterval(() => { if (!document.hidden && state.others.size > 0) readOther(route().id); }, pause);
