// The service worker of the replay host: answers what archived pages ask for from the archive, by wabac.js.
//
// Archived pages are hostile and have the same origin as this worker. So nothing that they can write decides here: no
// message is heard, no collection of IndexedDB is used, wabac.js asks this host for captures and for nothing else, and
// each response leaves with the policy that the server wrote into SETTINGS, the line above this file.
"use strict";

{
  const { wabac, policy, connections, archive, home } = SETTINGS;
  const site = `${self.location.origin}/`, pages = `${site}w/`, collection = `${pages}${archive}/`;
  const captures = `${site}capture/`;
  const HEADERS = {
    "Content-Security-Policy": policy,
    "Connection-Allowlist": connections,
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Origin-Agent-Cluster": "?1",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), display-capture=(), usb=(), serial=(), hid=()",
    "Referrer-Policy": "same-origin",
    "X-DNS-Prefetch-Control": "off",
  };
  // A link to a new window would do nothing in the sandbox: it opens in the frame.
  const IN_THE_FRAME = `<script>
for (const kind of ["click", "submit"]) document.addEventListener(kind, (event) => {
  const part = event.target.closest && event.target.closest("a[target], area[target], form[target]");
  if (part && /^_(blank|top|parent)$|^[^_]/i.test(part.target) && !self.frames[part.target]) part.target = "_self";
}, true);
</script>`;

  if (self.location.search || self.registration.scope !== site) throw new Error("not a worker of this site");
  self.addEventListener("message", (event) => event.stopImmediatePropagation());
  self.addEventListener("fetch", (event) => {
    event.stopImmediatePropagation();
    event.respondWith(answer(event));
  });

  const ask = self.fetch.bind(self);
  self.fetch = (wanted, options = {}) => {
    const url = new URL(wanted.url ?? wanted, site).href;
    if (!url.startsWith(captures) && !url.startsWith("blob:")) return Promise.reject(new TypeError("not a capture"));
    return ask(wanted, { ...options, credentials: "omit" });
  };

  importScripts(wabac);

  const ready = (async () => {
    const collections = self.sw.collections;
    const config = {
      metadata: {}, sourceUrl: captures, decode: false,
      extraConfig: { prefix: captures, isLive: false, archivePrefix: "", archiveMod: "id_", csp: policy },
    };
    const store = await collections._initStore("live", config);
    const pagesOf = collections._createCollection({ name: archive, store, config });
    const insert = pagesOf.makeHeadInsert.bind(pagesOf);
    pagesOf.makeHeadInsert = (...values) => insert(...values) + IN_THE_FRAME;
    pagesOf.makeTopFrame = async (url, timestamp) => Response.redirect(`${collection}${timestamp}mp_/${url}`);
    collections.getColl = async () => pagesOf;
  })();

  async function answer(event) {
    const { url, referrer, destination } = event.request;
    if (!url.startsWith(site)) return Response.error();
    const wanted = /^(\d*)(?:[a-z]+_)?\/(https?:.+)$/.exec(url.startsWith(collection) ? url.slice(collection.length) : "");
    if (destination === "document" && wanted) return outside(wanted[2], wanted[1]);
    const isArchived = url.startsWith(collection) || url.startsWith(`${site}static/`);
    if (!isArchived && !referrer.startsWith(collection)) return ask(event.request);
    await ready;
    return withPolicy(await self.sw.handleFetch(event));
  }

  // An archived page in a tab of its own could leave the archive: the site shows it, in the frame.
  function outside(page, timestamp) {
    return Response.redirect(`${home}/copy?${new URLSearchParams({ url: page, at: timestamp })}`);
  }

  function withPolicy(response) {
    const { status, statusText } = response;
    if (response.type === "error") return response;
    const target = response.headers.get("Location");
    if (target && status >= 300 && status < 400) return target.startsWith(site) ? response : Response.error();
    const headers = new Headers(response.headers);
    for (const [name, value] of Object.entries(HEADERS)) headers.set(name, value);
    const body = [101, 204, 205, 304].includes(status) ? null : response.body;
    return new Response(body, { status, statusText, headers });
  }
}
