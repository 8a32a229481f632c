// The address within the page selects the view.
import { changed, onChange, state } from "/assets/store.js";

/** The view of the current address, the id in it, and the action to start there. */
export function route() {
  const [name, id = "", doing = ""] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  return { name: { w: "workspace", account: "account", admin: "admin", usage: "usage" }[name] ?? "home", id, doing };
}

/** The address of a workspace's own page. */
export const pageOf = (id) => `#/w/${id}`;

/** The matches of a selector in the current view: hidden views keep their elements. */
export const seen = (selector) => [...document.querySelectorAll("main > div:not([hidden])")].flatMap((place) => [...place.querySelectorAll(selector)]);

/** Calls entered whenever the view changes. */
export function onRoute(entered) {
  window.addEventListener("hashchange", () => {
    if (/^#\w/.test(location.hash)) return; // the link that skips to the content
    state.menu = "";
    state.renaming = "";
    document.getElementById("main").focus({ preventScroll: true });
    scrollTo(0, 0);
    entered(route());
    changed();
  });
  entered(route());
}

/** Shows a view while its address is open. */
export function view(name, draw) {
  const place = document.getElementById(`view-${name}`);
  onChange(() => {
    const here = route();
    place.hidden = here.name !== name;
    if (!place.hidden) draw(place, here.id);
  });
}
