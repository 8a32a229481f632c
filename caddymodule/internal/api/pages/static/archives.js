// The archives in a card's details, and going back to an older one.
import { api, date, explain, size, t } from "/assets/text.js";
import { confirmed } from "/assets/confirm.js";

const shown = new WeakMap(); // details → what the list in it is about

/** Fills the details of a workspace with its archives, when they may have changed. */
export async function archives(w, details, again = false) {
  const about = [
    w.archive_key, w.revert?.key, w.phase, w.operation, w.archive?.damage, document.documentElement.lang,
  ].join(" ");
  if (!again && shown.get(details) === about) return;
  shown.set(details, about);
  const section = details.querySelector(".archives");
  let items = [];
  let failure = "";
  try {
    items = (await api("GET", `workspaces/${w.id}/archives`)).items;
  } catch (error) {
    failure = explain(error);
  }
  if (shown.get(details) !== about) return; // an older answer
  if (failure) shown.delete(details); // the next event asks again
  section.hidden = items.length === 0 && !failure;
  section.querySelector("h3").textContent = t("archives_title");
  say(section, failure);
  section.querySelector("ul").replaceChildren(...items.map((a) => entry(w, a, details)));
}

function say(section, words) {
  const message = section.querySelector("p");
  message.textContent = words;
  message.hidden = !words;
}

function entry(w, a, details) {
  const li = document.createElement("li");
  const words = document.createElement("p");
  const states = [t("archive_of", { Time: date(a.created_at), Size: size(a.content_bytes ?? a.size) })];
  if (a.current) states.push(t("archive_current"));
  if (a.kept) states.push(t("archive_kept"));
  if (a.damage) states.push(t("archive_damaged"));
  else if (a.verified_at) states.push(t("archive_verified", { Time: date(a.verified_at) }));
  words.textContent = states.join(" · ");
  li.append(words);
  const possible = !a.damage && !(a.current && w.phase === "ARCHIVED") &&
    ["ARCHIVED", "STANDBY", "RUNNING"].includes(w.phase);
  if (!possible) return li;
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: t("archive_restore") });
  button.setAttribute("aria-label", t("archive_restore_label", { Time: date(a.created_at), Name: w.name }));
  button.disabled = w.operation !== "NONE" || w.revert !== null;
  button.addEventListener("click", () => restore(w, a, details, button));
  li.append(button);
  return li;
}

async function restore(w, a, details, button) {
  const title = t("archive_restore_title", { Name: w.name, Time: date(a.created_at) });
  if (!(await confirmed(title, t("archive_restore_text"), t("archive_restore")))) return;
  button.disabled = true;
  const section = details.querySelector(".archives");
  try {
    await api("POST", `workspaces/${w.id}/archives/restore`, { archive: a.key }); // the stream tells how far it is
    say(section, t("archive_restoring"));
  } catch (error) {
    button.disabled = false;
    say(section, explain(error));
  }
}
