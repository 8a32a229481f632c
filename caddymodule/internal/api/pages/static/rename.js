// Renames a workspace in place.
import { h } from "/assets/dom.js";
import { api, t } from "/assets/text.js";
import { seen } from "/assets/router.js";
import { changed, onChange, put, signedOut, state } from "/assets/store.js";

let typed = null; // the text in the field, which may be drawn again elsewhere
let drawn = null;

/** Turns the name of a workspace into a field, until it is saved or cancelled. */
export function rename(w) {
  state.renaming = w.id;
  typed = drawn = null;
  changed();
}

function close(w, form) {
  const focused = form.contains(document.activeElement);
  state.renaming = "";
  changed();
  if (focused) setTimeout(() => seen(`[data-menu="${w.id}"]`)[0]?.focus(), 30);
}

// A new field gets the focus.
function focus() {
  const field = seen("#rename")[0];
  if (!field || field === drawn) return;
  const first = drawn === null;
  drawn = field;
  field.focus();
  if (first) field.select();
}

onChange(() => { if (state.renaming) setTimeout(focus); }); // the views are drawn after this

async function save(w, form) {
  const name = form.querySelector("input").value.trim();
  if (!name) return;
  if (name !== w.name) {
    state.failures.delete(w.id);
    try {
      put(await api("PATCH", `workspaces/${w.id}`, { name }));
    } catch (error) {
      if (!signedOut(error)) state.failures.set(w.id, error); // its card shows it, and the field stays
      changed();
      return;
    }
  }
  close(w, form);
}

/** The name of a workspace, or the field to change it. */
export function nameOr(w, shown) {
  if (state.renaming !== w.id) return shown;
  return h("form", { class: "rename", onsubmit: (event) => { event.preventDefault(); save(w, event.currentTarget); },
    onkeydown: (event) => {
      if (event.key !== "Escape" || event.isComposing) return;
      event.preventDefault();
      close(w, event.currentTarget);
    } },
  h("span", { class: "hidden", id: `name-${w.id}` }, w.name),
  h("input", { id: "rename", value: typed ?? w.name, required: true, maxlength: "255", autocomplete: "off", "aria-label": t("name"),
    oninput: (event) => { typed = event.target.value; } }),
  h("button", { class: "primary" }, t("save")),
  h("button", { type: "button", onclick: (event) => close(w, event.currentTarget.form) }, t("cancel")));
}
