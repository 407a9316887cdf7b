// Suggestions while typing (WAI-ARIA: a combobox with a list). Everything works without this.
"use strict";

{
  const field = document.getElementById("q");
  const WAIT_MS = 120, LEAST = 2, MOST = 100;
  let list, timer, asking, chosen = -1;

  function prepare() {
    list = document.createElement("ul");
    Object.assign(list, { className: "offers", id: "offers", role: "listbox", hidden: true });
    list.setAttribute("aria-label", field.dataset.suggestions);
    field.closest(".box").append(list);
    field.setAttribute("role", "combobox");
    field.setAttribute("aria-autocomplete", "list");
    field.setAttribute("aria-controls", "offers");
    show([]);
  }

  function show(texts) {
    chosen = -1;
    list.replaceChildren(...texts.map((text, number) => {
      const item = document.createElement("li");
      Object.assign(item, { id: `offer-${number}`, role: "option", textContent: text });
      return item;
    }));
    list.hidden = texts.length === 0;
    field.setAttribute("aria-expanded", String(!list.hidden));
    field.removeAttribute("aria-activedescendant");
  }

  // Round and round: the places of the list, and -1, the field itself.
  function step(by) {
    const items = [...list.children], places = items.length + 1;
    chosen = ((chosen + 1 + by + places) % places) - 1;
    items.forEach((item, place) => item.setAttribute("aria-selected", String(place === chosen)));
    if (chosen < 0) field.removeAttribute("aria-activedescendant");
    else field.setAttribute("aria-activedescendant", items[chosen].id);
  }

  function take(item) {
    field.value = item.textContent;
    show([]);
    field.form.requestSubmit();
  }

  async function ask() {
    const text = field.value.trim();
    asking?.abort();
    if (text.length < LEAST || text.length > MOST) return show([]);
    asking = new AbortController();
    try {
      const answer = await fetch(`/suggest?q=${encodeURIComponent(text)}`, { signal: asking.signal });
      const [, texts] = answer.ok ? await answer.json() : [text, []];
      if (field.value.trim() === text && document.activeElement === field) show(texts);
    } catch {
      // typed on, or nobody answers: there is nothing to show
    }
  }

  if (field && field.dataset.suggestions) {
    prepare();
    field.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(ask, WAIT_MS);
    });
    field.addEventListener("keydown", (event) => {
      if (list.hidden || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "ArrowDown") step(1);
      else if (event.key === "ArrowUp") step(-1);
      else if (event.key === "Escape") show([]);
      else if (event.key === "Enter" && chosen >= 0) take(list.children[chosen]);
      else return;
      event.preventDefault();
    });
    field.addEventListener("blur", () => show([]));
    list.addEventListener("mousedown", (event) => {
      event.preventDefault(); // the field keeps the focus
      const item = event.target.closest("li");
      if (item) take(item);
    });
  }
}
