// The dialog that asks before something that cannot be undone easily.

/** Asks, and returns whether the answer is yes. */
export function confirmed(title, words, yes) {
  const dialog = document.getElementById("confirm");
  document.getElementById("confirm-title").textContent = title;
  document.getElementById("confirm-text").textContent = words;
  document.getElementById("confirm-ok").textContent = yes;
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "ok"), { once: true });
  });
}
