// Keeps the bar above a replayed page in step with the frame, in which a link may have been followed.
// What the frame says is hostile: a URL and a date are asked for here, and nothing of it is shown.
"use strict";

{
  const bar = document.getElementById("bar"), frame = document.querySelector("iframe.archived");
  const origin = new URL(frame.src).origin;
  const URL_CHARS_MAX = 4000, PAUSE_MS = 1000;
  const shown = new URL(location);
  let wanted = null, busy = false, current = `${shown.searchParams.get("url")} ${frame.src.match(/\/w\/\w+\/(\d+)/)[1]}`;

  async function follow() {
    if (busy || !wanted) return;
    const [url, at] = wanted;
    busy = true;
    wanted = null;
    try {
      const there = new URL("/copy", location);
      const language = shown.searchParams.get("hl");
      for (const [name, value] of [["url", url], ["at", at], ["hl", language]]) {
        if (value) there.searchParams.set(name, value);
      }
      const response = await fetch(`${there}&as=bar`);
      bar.innerHTML = await response.text();
      history.replaceState(null, "", there);
    } catch {
      // The server is away: the bar stays as it is.
    }
    setTimeout(() => {
      busy = false;
      follow();
    }, PAUSE_MS);
  }

  addEventListener("message", ({ data, origin: from, source }) => {
    if (from !== origin || source !== frame.contentWindow || data?.wb_type !== "load") return;
    const url = String(data.url), at = String(data.ts).slice(0, 14);
    const next = `${url} ${at}`;
    if (next === current || url.length > URL_CHARS_MAX || !/^https?:\/\//.test(url) || !/^\d{4,14}$/.test(at)) return;
    current = next;
    wanted = [url, at];
    follow();
  });
}
