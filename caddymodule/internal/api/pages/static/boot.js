(() => {
  const { src } = document.currentScript.dataset;
  const message = document.getElementById("unloaded");
  let missing = 0;
  function keepTrying(attempt) {
    let tries = 0;
    missing++;
    const done = () => { message.hidden = --missing === 0; };
    const failed = () => {
      message.hidden = false;
      setTimeout(() => attempt(`?${++tries}`, done, failed), Math.min(500 * 2 ** tries, 10_000));
    };
    attempt("", done, failed);
  }
  for (const link of document.querySelectorAll("link[rel=stylesheet]")) {
    const { href } = link;
    let styled = false;
    try { styled = Boolean(link.sheet.cssRules); } catch { /* it could not be loaded */ }
    if (styled) continue;
    keepTrying((suffix, done, failed) => {
      if (!suffix) return failed();
      Object.assign(link, { href: href + suffix, onload: done, onerror: failed });
    });
  }
  keepTrying((suffix, done, failed) => {
    const script = Object.assign(document.createElement("script"), { type: "module", src: src + suffix, onload: done });
    script.onerror = () => {
      script.remove();
      failed();
    };
    document.head.append(script);
  });
})();
