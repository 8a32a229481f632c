// Another name for a workspace, given where the name stands.
import { h } from "/assets/dom.js";
import { api, t } from "/assets/text.js";
import { changed, put, signedOut, state } from "/assets/store.js";

const field = () => document.getElementById("rename");

/** Makes the name of a workspace a field, until it is saved or given up. */
export function rename(w) {
  state.renaming = w.id;
  changed();
  setTimeout(() => field()?.select(), 30); // it is there as soon as the change is drawn
}

function close(w) {
  const focused = field()?.form.contains(document.activeElement);
  state.renaming = "";
  changed();
  if (focused) setTimeout(() => document.querySelector(`[data-menu="${w.id}"]`)?.focus(), 30);
}

async function save(w) {
  const name = field().value.trim();
  if (!name) return;
  if (name !== w.name) {
    state.failures.delete(w.id);
    try {
      put(await api("PATCH", `workspaces/${w.id}`, { name }));
    } catch (error) {
      if (!signedOut(error)) state.failures.set(w.id, error); // its card says it, and the field stays
      changed();
      return;
    }
  }
  close(w);
}

/** The name of a workspace as it is shown, or the field for another one. */
export function nameOr(w, shown) {
  if (state.renaming !== w.id) return shown;
  return h("form", { class: "rename", onsubmit: (event) => { event.preventDefault(); save(w); },
    onkeydown: (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      close(w);
    } },
  h("span", { class: "hidden", id: `name-${w.id}` }, w.name),
  h("input", { id: "rename", value: w.name, required: true, maxlength: "255", autocomplete: "off", "aria-label": t("name") }),
  h("button", { class: "primary" }, t("save")),
  h("button", { type: "button", onclick: () => close(w) }, t("cancel")));
}
