// Keys, menus that close by themselves, and switches that count at once. Everything works without this.
"use strict";

const box = document.getElementById("q");
const results = [...document.querySelectorAll("ol.hits h2 a")];
const isTyping = (element) => /^(input|textarea|select)$/i.test(element.tagName) && !/^(checkbox|radio)$/.test(element.type);

// "/" goes to the box; arrows or j and k go over the results; Enter opens as links do; Escape leads back.
function go(step) {
  const at = results.indexOf(document.activeElement);
  const next = at < 0 && step < 0 ? -1 : at + step;
  if (next < 0) return box ? toBox() : undefined;
  const link = results[Math.min(next, results.length - 1)];
  link.focus();
  link.closest("li").scrollIntoView({ block: "nearest" });
}

function toBox() {
  box.focus();
  box.select();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const here = event.target;
  const inMenu = here.closest("details[open]");
  if (event.key === "Escape" && inMenu && inMenu.classList.contains("menu")) {
    inMenu.open = false;
    inMenu.querySelector("summary").focus();
    return;
  }
  const open = results.length > 0 && !inMenu;
  if (here === box) {
    if (event.key === "ArrowDown" && open) {
      event.preventDefault();
      go(1);
    }
    return;
  }
  if (isTyping(here)) return;
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
  if (event.key === "/" && box) {
    event.preventDefault();
    toBox();
  } else if (event.key === "Escape" && results.includes(here)) {
    toBox();
  } else if (step && open && (here === document.body || results.includes(here))) {
    event.preventDefault();
    go(step);
  }
});

// A click elsewhere closes an open menu.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

for (const one of document.querySelectorAll("input.at-once")) {
  one.addEventListener("change", () => one.form.requestSubmit());
}
