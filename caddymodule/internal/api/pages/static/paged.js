// Lists of the API that come in pages.
import { h, icon } from "/assets/dom.js";
import { api, explain, t } from "/assets/text.js";
import { changed, signedOut } from "/assets/store.js";

/**
 * A list below a path. It keeps its items until it is read again. The names are those of the field that tells where
 * the next page begins, of the parameter that requests it, and of the text for an empty list.
 */
export function paged(path, { next = "next_cursor", from: begins = "cursor", none = "nothing_found" } = {}) {
  const list = { items: [], loaded: false, read, end };
  let cursor = null;
  let asked = {};
  let failure = null;
  let question = 0;

  async function page(from) {
    const mine = ++question;
    const query = new URLSearchParams({ limit: "100", ...asked, ...(from ? { [begins]: from } : {}) });
    try {
      const answer = await api("GET", `${path}?${query}`);
      if (mine !== question) return; // an older answer
      list.items = from ? [...list.items, ...answer.items] : answer.items;
      cursor = answer[next];
      failure = null;
    } catch (error) {
      if (mine !== question) return;
      if (!signedOut(error)) failure = error;
    }
    list.loaded = true;
    changed();
  }

  /** Reads the first page for a query. */
  function read(query = asked) {
    asked = query;
    return page(null);
  }

  /** The part below the list: a failure, a note that nothing was found, or the button for the next page. */
  function end() {
    if (failure) return h("p", { class: "notice", role: "alert" }, explain(failure));
    if (list.loaded && list.items.length === 0) return h("p", { class: "empty", role: "status" }, t(none));
    return cursor && h("p", null, h("button", { type: "button", class: "next-page", onclick: () => page(cursor) }, t("more")));
  }
  return list;
}

/** A field that searches as people type. */
export function searchField(id, label, search) {
  let waiting = 0;
  return h("label", { class: "search" }, icon("search"), h("span", { class: "hidden" }, label),
    h("input", { id, type: "search", placeholder: label, autocomplete: "off", spellcheck: "false",
      oninput: ({ target }) => {
        clearTimeout(waiting);
        waiting = setTimeout(() => search(target.value.trim()), 250);
      } }));
}
