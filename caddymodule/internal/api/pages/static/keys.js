// Keyboard shortcuts, and the sheet that lists them.
import { h, show } from "/assets/dom.js";
import { onLanguage, t } from "/assets/text.js";
import { create } from "/assets/create.js";
import { seen } from "/assets/router.js";

const sheet = document.getElementById("keys");
const shortcuts = {
  "/": ["keys_search", () => {
    location.hash = "#/";
    setTimeout(() => document.getElementById("search")?.focus(), 50);
  }],
  n: ["keys_new", create],
  o: ["keys_open", () => seen(".continue a.open, .workspace a.open")[0]?.click()],
  h: ["keys_home", () => { location.hash = "#/"; }],
  a: ["keys_account", () => { location.hash = "#/account"; }],
  u: ["keys_usage", () => { location.hash = "#/usage"; }],
  "?": ["keys_help", () => sheet.showModal()],
};

// In fields and dialogs letters keep their meaning; with Ctrl and the like they belong to the browser.
document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (document.querySelector("dialog[open]") || event.target.closest("input, select, textarea, [role=menu]")) return;
  const shortcut = shortcuts[event.key];
  if (!shortcut) return;
  event.preventDefault();
  shortcut[1]();
});
document.getElementById("keys-open").addEventListener("click", () => sheet.showModal());
onLanguage(() => show(document.getElementById("keys-list"),
  Object.entries(shortcuts).map(([key, [name]]) => [h("dt", null, h("kbd", null, h("code", null, key))), h("dd", null, t(name))])));
