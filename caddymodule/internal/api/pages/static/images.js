// The images that workspaces may have, and the fields in which one is chosen.
import { api, onLanguage, t } from "/assets/text.js";

const other = "*"; // the choice of an administrator who gives a reference
const fields = [];
let images = [];
let anyReference = false;

/** Reads the list again. Without it there is nothing to choose, and the default is used. */
export async function loadImages() {
  try {
    const answer = await api("GET", "images");
    images = answer.items;
    anyReference = answer.any_reference;
  } catch { /* the connection's state is shown elsewhere */ }
  for (const field of fields) field.show();
}

/** Whether the user may choose that image. */
const offered = (ref) => ref === "" || anyReference || images.some((image) => image.name === ref);

/** The field below the element with this id: a list, what is said about the choice, and a text for any reference. */
export function imageField(id) {
  const box = document.getElementById(id);
  const [select, input, hint] = ["select", "input", ".hint"].map((selector) => box.querySelector(selector));
  let present = ""; // what the workspace has; empty is the default
  let chosen = "";
  const name = (ref) => (images.find((image) => image.default)?.name === ref ? "" : ref ?? "");
  const value = () => (chosen === other ? input.value.trim() || other : chosen);

  function describe() {
    input.hidden = chosen !== other;
    input.required = !input.hidden;
    const image = images.find((one) => (chosen === "" ? one.default : one.name === chosen));
    hint.textContent = chosen === other ? t("image_any") : image ? image.description : t("image_gone");
  }

  function show() {
    const label = (image) =>
      image.default && image.name !== "default" ? t("image_default", { Name: image.name }) : image.name;
    const options = images.map((image) => [image.default ? "" : image.name, label(image)]);
    if (present && !images.some((image) => image.name === present)) options.push([present, present]);
    if (anyReference) options.push([other, t("image_other")]);
    select.replaceChildren(...options.map(([value, text]) => new Option(text, value, false, value === chosen)));
    box.hidden = options.length < 2;
    describe();
  }

  select.addEventListener("change", () => {
    chosen = select.value;
    describe();
    if (!input.hidden) input.focus();
  });
  const field = {
    show,
    value,
    /** Shows what a workspace has; null is the default. */
    set(ref) {
      present = chosen = name(ref);
      input.value = "";
      show();
    },
    /** What has to be sent for a workspace in ERROR or not: undefined for nothing. */
    change: (again) => (value() !== present || (again && offered(present)) ? value() || null : undefined),
  };
  fields.push(field);
  onLanguage(show);
  return field;
}
