// What an administrator has to put right, as this process knows it.
const section = document.getElementById("problems");
const list = document.getElementById("problems-list");

async function load() {
  try {
    const health = await (await fetch("/health/coordinator")).json();
    // A site whose own sign-in leaves /health/coordinator out gets the bare status.
    const problems = health.problems ?? (health.status === "ok" ? [] : ["caddy codehub doctor"]);
    const texts = [...list.children].map((li) => li.textContent);
    if (texts.join("\n") === problems.join("\n")) return;
    list.replaceChildren(...problems.map((problem) => {
      const li = document.createElement("li");
      li.lang = "en"; // the server's own words
      li.textContent = problem;
      return li;
    }));
    section.hidden = problems.length === 0;
  } catch { /* the connection's state is shown elsewhere */ }
}

/** Shows the problems from now on. */
export function watchProblems() {
  load();
  setInterval(() => { if (!document.hidden) load(); }, 30_000);
}
