// The menu of a workspace: a button that opens the list of its actions.
import { h, icon } from "/assets/dom.js";
import { t } from "/assets/text.js";
import { act, blocked, isDanger, nameOf, offered, pictureOf } from "/assets/actions.js";
import { seen } from "/assets/router.js";
import { changed, state } from "/assets/store.js";

const place = (id) => seen(`[data-menu="${id}"]`)[0];
const items = (id) => seen(`#menu-${id} [role=menuitem]`);

function close(refocus) {
  const id = state.menu;
  state.menu = "";
  changed();
  if (refocus) place(id)?.focus();
}

// The items exist as soon as the change is drawn.
function open(id, which) {
  state.menu = id;
  changed();
  setTimeout(() => items(id).at(which)?.focus(), 30);
}

function move(event, id) {
  const all = items(id);
  const at = all.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
  if (event.key === "Escape" || event.key === "Tab") {
    if (event.key === "Escape") event.preventDefault();
    close(event.key === "Escape");
  } else if (to !== undefined) {
    event.preventDefault();
    all.at(to >= all.length ? 0 : to)?.focus();
  } else if (event.key.length === 1 && event.key !== " ") {
    const typed = event.key.toLocaleLowerCase();
    [...all.slice(at + 1), ...all].find((item) => item.textContent.trim().toLocaleLowerCase().startsWith(typed))?.focus();
  }
}

/** The button and, while it is open, the menu; without are the actions already shown beside it. */
export function menu(w, without = []) {
  const isOpen = state.menu === w.id;
  const names = offered(w).filter((name) => !without.includes(name));
  if (names.length === 0) return null;
  return h("div", { class: "menu" },
    h("button", { type: "button", class: "more", "data-menu": w.id, "aria-haspopup": "menu", "aria-expanded": String(isOpen),
      "aria-controls": isOpen ? `menu-${w.id}` : null, "aria-label": t("menu_label", { Name: w.name }),
      onclick: () => (isOpen ? close(false) : open(w.id, 0)),
      onkeydown: (event) => {
        if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
        event.preventDefault();
        open(w.id, event.key === "ArrowDown" ? 0 : -1);
      } }, icon("more")),
    isOpen && h("div", { class: "menu-list", role: "menu", id: `menu-${w.id}`, "aria-label": t("menu_label", { Name: w.name }),
      onkeydown: (event) => move(event, w.id) },
    names.map((name) => h("button", { type: "button", role: "menuitem", tabindex: "-1", "data-action": name,
      class: isDanger(name) ? "danger" : null, disabled: blocked(w, name),
      onclick: () => { close(true); act(w, name); } }, icon(pictureOf(name)), nameOf(name, w)))));
}

document.addEventListener("click", (event) => {
  if (state.menu && !event.target.closest(".menu")) close(false);
});
