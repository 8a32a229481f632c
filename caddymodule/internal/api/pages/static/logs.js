// The last lines of output of a running workspace's container, followed live.
import { h } from "/assets/dom.js";
import { explain, t } from "/assets/text.js";
import { changed, signedOut, user } from "/assets/store.js";

const kept = 100_000; // characters
let about = ""; // the id of the workspace whose lines are read
let text = "";
let failure = null;
let reading = null; // an AbortController

function stop() {
  reading?.abort();
  reading = null;
  about = text = "";
  failure = null;
}

async function read(id) {
  about = id;
  reading = new AbortController();
  const mine = reading;
  try {
    const answer = await fetch(`/api/v1/workspaces/${id}/logs?lines=200&follow=true`, { signal: mine.signal });
    if (!answer.ok) throw { status: answer.status, problem: await answer.json().catch(() => undefined) };
    const decoder = new TextDecoder();
    for await (const piece of pieces(answer.body.getReader())) {
      text = (text + decoder.decode(piece, { stream: true })).slice(-kept);
      changed();
    }
  } catch (error) {
    if (mine.signal.aborted) return;
    failure = error.status === undefined ? { status: 0 } : error;
    if (signedOut(failure)) return;
  }
  changed();
}

async function* pieces(reader) {
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

/** Sets the visible workspace; empty for none. The lines of another one are dropped. */
export const leave = (id) => { if (about && about !== id) stop(); };

function toggle(event, w) {
  if (!event.target.open) stop();
  else if (about !== w.id) read(w.id);
  changed();
}

/** The part of a running workspace's page. Only its owner may read the output of an application. */
export const logs = (w) => w.phase === "RUNNING" && w.owner_user_id === user.id && h("details", { class: "panel logs", "data-key": `logs-${w.id}`, ontoggle: (event) => toggle(event, w) },
  h("summary", null, t("parts.logs")),
  failure && h("p", { class: "notice" }, explain(failure)),
  about === w.id && !failure && h("pre", { tabindex: "0", "aria-label": t("parts.logs") }, h("code", null, text || t("no_lines"))));
