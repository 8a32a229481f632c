import { api, explain, onLanguage } from "/assets/text.js";

const form = document.getElementById("login");
const message = document.getElementById("message");
let failure = null;

onLanguage(() => {
  message.hidden = !failure;
  message.textContent = failure ? explain(failure) : "";
});

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("button[type=submit]");
  button.disabled = true;
  message.hidden = true;
  try {
    await api("POST", "auth/login", { username: form.username.value, password: form.password.value });
    location.replace(form.dataset.return + location.hash); // the fragment of the address that needed the sign-in
  } catch (error) {
    failure = error;
    message.textContent = explain(error);
    message.hidden = false;
    form.password.value = "";
    form.password.focus();
    button.disabled = false;
  }
});
// Before this point the browser itself would submit the form, to an address that does not accept it.
if (form.password) form.querySelector("button[type=submit]").disabled = false;
