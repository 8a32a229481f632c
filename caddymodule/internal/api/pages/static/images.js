// The images for workspaces, and the cards to choose one.
import { h, icon, show } from "/assets/dom.js";
import { api, onLanguage, size, t } from "/assets/text.js";
import { changed, state } from "/assets/store.js";

const other = "*"; // the choice of an administrator who enters a reference
const fields = [];

/** Reads the list again. Without it there is nothing to choose, and the default is used. */
export async function loadImages() {
  try {
    state.images = await api("GET", "images");
    changed();
  } catch { /* the connection's state is shown elsewhere */ }
  for (const field of fields) field.draw();
}

const pictures = ["code", "notebook", "terminal", "database", "python", "go", "node", "java", "rust", "box"];

// The pictures by words in an image's name, if the server names no picture.
const called = { ide: "code", vscode: "code", jupyter: "notebook", postgres: "database", golang: "go", nodejs: "node" };

/** The picture of the image of a workspace; null is the default. */
export function imageIcon(ref) {
  const image = state.images.items.find((one) => (ref ? one.name === ref : one.default));
  if (pictures.includes(image?.icon)) return image.icon;
  const words = `${image?.name ?? ref ?? ""}`.toLowerCase().split(/[^a-z]+/).map((word) => called[word] ?? word);
  return words.find((word) => pictures.includes(word)) ?? (image?.default ? "code" : "box");
}

/** The name of a workspace's image; null is the default. It is empty while the name is not known. */
export function imageName(ref) {
  const image = state.images.items.find((one) => (ref ? one.name === ref : one.default));
  return image?.title ?? image?.name ?? ref ?? "";
}

/** Whether the user may choose that image. */
const offered = (ref) => ref === "" || state.images.any_reference || state.images.items.some((one) => one.name === ref);

/** The field below the element with this id: a card per image, and a text field for any reference. */
export function imageField(id) {
  const box = document.getElementById(id);
  const [cards, input] = [".cards", "input[data-reference]"].map((selector) => box.querySelector(selector));
  let present = ""; // the workspace's image; empty is the default
  let chosen = "";
  const value = () => (chosen === other ? input.value.trim() || other : chosen);
  const image = () => state.images.items.find((one) => (chosen === "" ? one.default : one.name === chosen));

  function card(ref, picture, title, description, bytes) {
    return h("label", { class: "choice image-card", "data-image": ref || "default" },
      h("input", { type: "radio", name: id, value: ref, checked: ref === chosen,
        onchange: () => { chosen = ref; draw(); box.dispatchEvent(new Event("choose")); if (!input.hidden) input.focus(); } }),
      h("span", { class: "tile" }, icon(picture)),
      h("span", null, h("span", { class: "name" }, title), description && h("span", { class: "hint description" }, description),
        bytes > 0 && h("span", { class: "hint" }, t("image_size", { Size: size(bytes) }))));
  }

  function draw() {
    const { items, any_reference: any } = state.images;
    const options = items.map((one) => card(one.default ? "" : one.name, imageIcon(one.name),
      one.default && items.length > 1 && (one.title ?? one.name) !== "default" ? t("image_default", { Name: one.title ?? one.name })
        : h("bdi", null, one.title ?? one.name),
      one.description, one.size_bytes));
    if (present && !items.some((one) => one.name === present)) {
      options.push(card(present, "box", h("bdi", null, present), t("image_gone")));
    }
    if (any) options.push(card(other, "edit", t("image_other"), t("image_any")));
    show(cards, options);
    box.hidden = options.length < 2;
    input.hidden = chosen !== other;
    input.required = !input.hidden;
    input.setAttribute("aria-label", t("image_any"));
  }

  const field = {
    draw,
    value,
    image,
    /** Shows the image of a workspace; null is the default. */
    set(ref) {
      present = chosen = state.images.items.find((one) => one.default)?.name === ref ? "" : ref ?? "";
      input.value = "";
      draw();
    },
    /** The value to send, for a workspace in ERROR or not; undefined for none. */
    change: (again) => (value() !== present || (again && offered(present)) ? value() || null : undefined),
  };
  fields.push(field);
  onLanguage(draw);
  return field;
}
