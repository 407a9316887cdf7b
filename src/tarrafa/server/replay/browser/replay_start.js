// Starts the service worker of the replay host, and asks for the archived page again, which the worker then answers.
"use strict";

(async () => {
  // Where it does not start, this is said, and not tried for ever.
  const STARTS_MAX = 3, SOON_MS = 20_000, PATIENCE_MS = 15_000, KEY = "starts";
  const say = (id) => {
    for (const part of document.querySelectorAll("p")) part.hidden = part.id !== id;
  };
  say("starts");
  setTimeout(() => say("failed"), PATIENCE_MS);
  try {
    if (!navigator.serviceWorker) return say("unsupported");
    const before = JSON.parse(sessionStorage.getItem(KEY) || "[]").filter((at) => at > Date.now() - SOON_MS);
    if (before.length >= STARTS_MAX) return say("failed");
    sessionStorage.setItem(KEY, JSON.stringify([...before, Date.now()]));
    await navigator.serviceWorker.register("/replay_worker.js", { scope: "/" });
    await navigator.serviceWorker.ready;
    location.reload();
  } catch (error) {
    console.error(error);
    say("failed");
  }
})();
