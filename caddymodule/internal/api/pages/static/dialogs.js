// Dialogs with a question: each is a <dialog> with a form in the page.

/** Shows a dialog, and returns the value of the button that closed it. */
export function asked(dialog) {
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue), { once: true });
  });
}

// In a form with fields, Enter submits. The cancel button must not be a submit button, or the browser would press it.
document.addEventListener("click", (event) => {
  event.target.closest?.("dialog button[type=button][value=cancel]")?.closest("dialog").close("cancel");
});

/** Asks before an irreversible action, and returns whether the answer is yes. */
export async function confirmed(title, words, yes) {
  document.getElementById("confirm-title").textContent = title;
  document.getElementById("confirm-text").textContent = words;
  document.getElementById("confirm-ok").textContent = yes;
  return (await asked(document.getElementById("confirm"))) === "ok";
}
