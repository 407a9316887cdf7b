// The editor: YASQE instead of the plain box, YASR for what comes back. Nothing but this site is asked: the completions
// that would look elsewhere are off, and so is everything that would be remembered in the browser.
"use strict";
(() => {
  const form = document.getElementById("sparql");
  const box = document.getElementById("query");
  const said = document.getElementById("said");
  const part = document.getElementById("part");
  if (!form || !window.Yasgui) return;
  const { Yasqe, Yasr } = window.Yasgui;
  const place = document.getElementById("yasqe");
  const own = { variables: true, prefixes: true };
  place.hidden = false;
  const editor = new Yasqe(place, {
    value: box.value,
    persistenceId: null,
    autocompleters: Object.keys(Yasqe.Autocompleters).filter((name) => own[name]),
    prefixCcApi: null,
    createShareableLink: (it) => `${location.origin}/sparql#query=${encodeURIComponent(it.getValue())}`,
    showQueryButton: false,
    resizeable: true,
    editorHeight: "19rem",
    requestConfig: {
      endpoint: new URL("/sparql", location.href).href,
      method: "POST",
      args: () => (part && part.value ? [{ name: "part", value: part.value }] : []),
    },
  });
  box.hidden = true;
  editor.getInputField().setAttribute("aria-label", form.dataset.label);
  const results = new Yasr(document.getElementById("yasr"), {
    persistenceId: null,
    prefixes: () => editor.getPrefixesFromQuery(),
  });

  // What YASR leaves without a name.
  results.on("drawn", () => {
    for (const it of document.querySelectorAll("#yasr select, #yasr input[type=text]")) {
      it.setAttribute("aria-label", it.placeholder || it.previousSibling?.textContent || it.className);
    }
    for (const it of document.querySelectorAll("#yasr th .dt-column-title:empty")) it.textContent = "#";
  });

  const run = () => editor.query().catch(() => {}); // what goes wrong is shown with the results
  editor.on("query", () => { said.textContent = form.dataset.running; });
  editor.on("queryResponse", (_, response, duration) => {
    results.setResponse(response, duration);
    const limits = { "X-Tarrafa-Limit": form.dataset.cut, "X-Tarrafa-Matches-Limit": form.dataset.matches };
    const cut = Object.entries(limits).map(([name, text]) => {
      const most = response.headers && response.headers.get(name);
      return most ? text.replace("{count}", most) : "";
    });
    said.textContent = cut.filter(Boolean).join(" ");
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  for (const link of document.querySelectorAll("[data-query]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      editor.setValue(link.dataset.query);
      run();
    });
  }
})();
