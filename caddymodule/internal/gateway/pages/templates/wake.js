// A form that leads back here: no server sees the fragment of the address, so the form carries it.
document.querySelectorAll("form.leads-back").forEach(function (form) {
  form.action += location.hash;
  form.addEventListener("submit", function () {
    document.querySelectorAll("form.leads-back button").forEach(function (b) { b.disabled = true; });
  });
});
addEventListener("pageshow", function (event) { // back from the next page
  if (!event.persisted) return;
  document.querySelectorAll("form.leads-back button").forEach(function (b) { b.disabled = false; });
});

// The wake page.
(function () {
  var wake = document.getElementById("wake");
  if (!wake) return;
  var list = document.getElementById("steps");
  var late = document.getElementById("late");
  var tag = wake.dataset.tag;
  var began = Date.now() - 1000 * Number(wake.dataset.elapsed);
  var stageBegan = Date.now() - 1000 * Number(wake.dataset.stageElapsed);
  var usual = Number(wake.dataset.usual);
  var ended = false;

  var languages = Array.from(document.querySelectorAll("#language button"), function (b) { return b.value; });

  // say puts a text into an element in every language, as the server does.
  function say(parent, text) {
    languages.forEach(function (lang) {
      var span = parent.querySelector(":scope > ." + lang);
      if (!span) {
        span = document.createElement("span");
        span.className = span.lang = lang;
        parent.append(span);
      }
      if (span.textContent !== text[lang]) span.textContent = text[lang];
    });
  }
  function clock() {
    if (ended) return;
    var s = Math.max(0, Math.round((Date.now() - began) / 1000));
    document.querySelector(".clock").textContent = Math.floor(s / 60) + ":" + String(s % 60).padStart(2, "0");
    late.hidden = !usual || Date.now() - stageBegan < 1000 * usual;
  }
  // Steps once shown stay, as done: a pulled image is not in the next list.
  function kept(steps) {
    var shown = Array.from(list.children).map(function (li) { return li.dataset.stage; });
    var now = steps.findIndex(function (s) { return s.state === "now"; });
    shown.forEach(function (stage) {
      if (stage !== "pulling" && stage !== "room" || steps.some(function (s) { return s.stage === stage; })) return;
      var spans = list.querySelector('[data-stage="' + stage + '"]');
      var step = { stage: stage, state: "done" };
      languages.forEach(function (lang) { step[lang] = spans.querySelector(":scope > ." + lang).textContent; });
      steps.splice(Math.max(0, now), 0, step);
      now++;
    });
    return steps;
  }
  // The bar shows the amount visually.
  function bar(li, percent) {
    var progress = li.querySelector("progress");
    if (percent === undefined) {
      if (progress) progress.remove();
      return;
    }
    if (!progress) {
      progress = document.createElement("progress");
      progress.max = 100;
      progress.setAttribute("aria-hidden", "true");
    }
    progress.value = percent;
    if (li.lastElementChild !== progress) li.append(progress);
  }
  function show(s) {
    began = Date.now() - 1000 * s.elapsed;
    stageBegan = Date.now() - 1000 * s.stage_elapsed;
    usual = s.usual_seconds;
    if (s.late) say(late.querySelector("p"), s.late);
    var steps = kept(s.steps || []);
    while (list.children.length > steps.length) list.lastElementChild.remove();
    steps.forEach(function (step, i) {
      var li = list.children[i] || list.appendChild(document.createElement("li"));
      li.className = step.state;
      li.dataset.stage = step.stage;
      if (step.state === "now") li.setAttribute("aria-current", "step"); else li.removeAttribute("aria-current");
      say(li, step);
      var amount = li.querySelector(".amount");
      if (!step.amount) {
        if (amount) amount.remove();
      } else {
        if (!amount) {
          li.append(" ");
          amount = li.appendChild(document.createElement("span"));
          amount.className = "amount";
        }
        say(amount, step.amount);
      }
      bar(li, step.percent);
      // Only another step is announced, not every byte of it.
      if (step.state === "now") say(document.getElementById("heard"), step);
    });
    clock();
  }
  function fail(f) {
    ended = true;
    late.hidden = true;
    document.getElementById("then").hidden = true;
    var now = list.querySelector(".now");
    if (now) {
      now.className = "failed";
      now.removeAttribute("aria-current");
    }
    say(document.getElementById("title"), f.heading);
    var box = document.getElementById("failure");
    var pre = box.querySelector("pre");
    pre.firstChild.textContent = f.reason;
    pre.hidden = !f.reason;
    say(box.querySelector("p"), f.remedy);
    box.hidden = false;
    wake.querySelectorAll("[data-action]").forEach(function (a) { a.hidden = a.dataset.action !== f.action; });
  }
  // The owner has put it to sleep meanwhile. Reloading this address could wake it.
  function sleep() {
    ended = true;
    ["title", "then", "steps", "heard", "since", "late"].forEach(function (id) { document.getElementById(id).hidden = true; });
    var form = document.getElementById("asleep");
    form.hidden = false;
    form.querySelector("button").focus();
  }
  // One request at a time; the server answers when the status changes.
  function poll(pause) {
    var status = wake.dataset.status + "?wait=25&seen=" + encodeURIComponent(tag);
    fetch(status, { cache: "no-store", credentials: "same-origin" })
      .then(function (answer) {
        if (answer.status === 401 || answer.status === 404) { location.reload(); return; }
        return answer.json().then(function (s) {
          // This server is too old: its page explains that.
          if (s.type === "urn:codehub:problem:outdated") { location.reload(); return; }
          if (!answer.ok) throw new Error("status " + answer.status);
          if (s.failure) { fail(s.failure); return; }
          if (s.stage === "asleep") { sleep(); return; }
          // Ready or refused: reloading shows the matching page, with the fragment.
          if (s.ready || !s.waking) { location.reload(); return; }
          tag = s.tag;
          show(s);
          setTimeout(poll, 100, 1000);
        });
      })
      .catch(function () { setTimeout(poll, pause, Math.min(2 * pause, 15000)); });
  }
  setInterval(clock, 1000);
  clock();
  poll(1000);
})();
