// Creates elements, and updates the page to the wanted elements without losing the focus or typed text.

const svg = "http://www.w3.org/2000/svg";
const inSVG = new Set(["svg", "use", "path", "line", "title", "circle"]);
const handlers = ["onclick", "onchange", "oninput", "onsubmit", "onkeydown", "ontoggle"];
const keptMemo = Symbol("memo");

/** Creates an element. Functions become handlers, and true an empty attribute; null and false omit the attribute. */
export function h(tag, attributes, ...children) {
  const e = inSVG.has(tag) ? document.createElementNS(svg, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") e[name] = value;
    else if (name === "value" || name === "checked") e[name] = value;
    else e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...nodes(children));
  return e;
}

/** An element that is created again only when a value of memo has changed; a comment is its placeholder. */
export const lazy = (key, memo, make) => Object.assign(document.createComment(""), { key, memo, make });

/** A picture by its name, hidden from screen readers. */
export const icon = (name) =>
  h("svg", { class: "icon", "aria-hidden": "true" }, h("use", { href: `#icon-${name}` }));

const nodes = (list) => list.flat(Infinity).filter((n) => n !== null && n !== undefined && n !== false && n !== "");

/** A choice among values, each with its text. */
export const choose = (id, label, present, options, set) => h("label", { class: "choose" }, h("span", { class: "hidden" }, label),
  h("select", { id, onchange: (event) => set(event.target.value) },
    options.map(([value, text]) => h("option", { value, selected: value === present }, text))));

/**
 * Shows the children in an element. A child with the same key or position is updated in place. A focus
 * whose element is gone or disabled moves to the link of the same workspace, or to the view.
 */
export function show(parent, ...children) {
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  const around = focused?.closest("[data-workspace]");
  patch(parent, nodes(children));
  if (!focused) return;
  const usable = focused.isConnected && !focused.disabled;
  const next = usable ? focused : around?.isConnected ? around.querySelector("a") : document.getElementById("main");
  if (document.activeElement !== next) next?.focus({ preventScroll: true });
}

const keyOf = (node) => node.key ?? node.dataset?.key;

function patch(parent, wanted) {
  const byKey = new Map();
  const loose = [];
  for (const old of parent.childNodes) {
    if (keyOf(old)) byKey.set(keyOf(old), old);
    else loose.push(old);
  }
  let place = parent.firstChild;
  for (const next of wanted) {
    const node = fill(take(byKey, loose, next), next);
    if (node === place) place = place.nextSibling;
    else parent.insertBefore(node, place);
  }
  while (place) {
    const rest = place;
    place = place.nextSibling;
    rest.remove();
  }
}

// The existing node to update for a wanted one.
function take(byKey, loose, next) {
  const key = keyOf(next);
  if (key) return byKey.get(key);
  const name = typeof next === "object" ? next.nodeName : "#text";
  const at = loose.findIndex((old) => old.nodeName === name);
  return at < 0 ? undefined : loose.splice(0, at + 1)[at];
}

// Creates a lazy element.
function build(next) {
  const made = next.make();
  made.dataset.key = next.key;
  made[keptMemo] = next.memo;
  return made;
}

// Creates the lazy elements in a new one.
function whole(node) {
  for (const child of [...node.childNodes]) {
    if (child.make) child.replaceWith(whole(build(child)));
    else whole(child);
  }
  return node;
}

function fill(old, next) {
  if (next.make) {
    if (old?.[keptMemo]?.every((value, i) => value === next.memo[i])) return old;
    const node = fill(old, build(next));
    node[keptMemo] = next.memo;
    return node;
  }
  const made = typeof next === "object" ? next : document.createTextNode(String(next));
  if (!old || old.nodeName !== made.nodeName) return whole(made);
  if (made.nodeType === Node.TEXT_NODE) {
    if (old.data !== made.data) old.data = made.data;
    return old;
  }
  for (const { name } of [...old.attributes]) if (!made.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  for (const { name, value } of made.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const name of handlers) if (old[name] !== made[name]) old[name] = made[name];
  if (old.nodeName === "INPUT" && (old.type === "checkbox" || old.type === "radio")) old.checked = made.checked;
  patch(old, [...made.childNodes]);
  if (old.nodeName === "SELECT" && old.value !== made.value) old.value = made.value;
  return old;
}
