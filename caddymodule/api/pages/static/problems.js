// What an administrator has to put right, as this process knows it.
const section = document.getElementById("problems");
const list = document.getElementById("problems-list");

async function load() {
  try {
    const health = await (await fetch("/health/coordinator")).json();
    const texts = [...list.children].map((li) => li.textContent);
    if (texts.join("\n") === health.problems.join("\n")) return;
    list.replaceChildren(...health.problems.map((problem) => {
      const li = document.createElement("li");
      li.lang = "en"; // the server's own words
      li.textContent = problem;
      return li;
    }));
    section.hidden = health.problems.length === 0;
  } catch { /* the connection's state is shown elsewhere */ }
}

/** Shows the problems from now on. */
export function watchProblems() {
  load();
  setInterval(() => { if (!document.hidden) load(); }, 30_000);
}
