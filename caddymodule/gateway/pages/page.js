"use strict";
(function () {
  var root = document.documentElement;
  document.querySelectorAll("fieldset input").forEach(function (input) {
    input.addEventListener("change", function () {
      root.lang = input.value;
      document.cookie = "codehub_lang=" + input.value + ";path=/;max-age=31536000;samesite=lax";
    });
  });
  var wake = document.getElementById("wake");
  if (!wake) return;
  var began = Date.now() - 1000 * Number(wake.dataset.elapsed || 0);
  var stages = ["queued", "restoring", "starting", "answering"];
  var tag = wake.dataset.tag;
  function clock() {
    var s = Math.max(0, Math.round((Date.now() - began) / 1000));
    var text = Math.floor(s / 60) + ":" + String(s % 60).padStart(2, "0");
    document.querySelectorAll(".clock").forEach(function (e) { e.textContent = text; });
  }
  setInterval(clock, 1000);
  clock();
  function label(element, en, ko) {
    element.querySelector(".en").textContent = en;
    element.querySelector(".ko").textContent = ko;
  }
  function show(s) {
    var at = stages.indexOf(s.stage);
    if (at < 0) return;
    var said = document.querySelectorAll("[data-say]");
    document.querySelectorAll("ol.steps li").forEach(function (li, i) {
      li.className = i < at ? "done" : i === at ? "now" : "";
      if (i === at) li.setAttribute("aria-current", "step"); else li.removeAttribute("aria-current");
      // What the workspace waits for takes the place of the step's usual text.
      var text = i === at && s.waiting || li.dataset;
      label(li, text.en, text.ko);
      label(said[i], text.en, text.ko);
      said[i].hidden = i !== at;
    });
  }
  // One request at a time; the server answers when the status changes.
  function poll(pause) {
    fetch(wake.dataset.status + "?wait=25&seen=" + encodeURIComponent(tag), { cache: "no-store", credentials: "same-origin" })
      .then(function (answer) {
        if (answer.status === 401 || answer.status === 404) { location.reload(); return; }
        if (!answer.ok) throw new Error("status " + answer.status);
        return answer.json().then(function (s) {
          // Ready, failed, asleep or refused: reloading shows the page for it.
          if (s.ready || !s.waking) { location.reload(); return; }
          tag = s.tag;
          show(s);
          setTimeout(poll, 100, 1000);
        });
      })
      .catch(function () { setTimeout(poll, pause, Math.min(2 * pause, 15000)); });
  }
  poll(1000);
})();
