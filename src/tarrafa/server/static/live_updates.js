// What changes on a page of the console, as it changes: pieces of the page as the server draws them, and points of
// curves. Everything can be read without this; then the page is what it was when it was asked for.
"use strict";

{
  const live = document.querySelector("[data-live]");
  const POINTS_MAX = 2000, HEIGHT = 190;
  const MINUTE_S = 60, SOON_S = 10, FEW = 500; // how far apart samples are: minutes, or lately about a second
  const WATCHED_S = 900; // the shortest time that can be chosen
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Change what is there into what comes, so that nobody's click, focus or selection falls into a hole.
  function become(old, next) {
    if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName || old.dataset?.key !== next.dataset?.key) {
      old.replaceWith(next);
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== next.data) old.data = next.data;
      return;
    }
    for (const { name } of [...old.attributes]) {
      if (!next.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    }
    for (const { name, value } of next.attributes) {
      if (old.getAttribute(name) !== value && name !== "open") old.setAttribute(name, value);
    }
    const before = [...old.childNodes], after = [...next.childNodes];
    after.forEach((child, place) => (place < before.length ? become(before[place], child) : old.append(child)));
    before.slice(after.length).forEach((child) => child.remove());
  }

  function show(parts) {
    for (const [id, html] of Object.entries(parts)) {
      const place = document.getElementById(id);
      if (!place) continue;
      const next = place.cloneNode(false);
      next.innerHTML = html;
      become(place, next);
    }
  }

  /** As the rest of the page writes it: 7,5 KB. */
  function size(number, format) {
    const power = number < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(number) / 3));
    return `${format.format(number / 1000 ** power)} ${["", "K", "M", "G", "T"][power]}B`;
  }

  /** A moment on the axis, by the clock of 24 hours and with no more than tells it from the next one. */
  function moment(at, language, step) {
    const date = new Date(at * 1000), isDay = !date.getHours() && !date.getMinutes() && !date.getSeconds();
    if (step >= 86400 || (isDay && step)) return date.toLocaleDateString(language, { day: "2-digit", month: "2-digit" });
    const seconds = step < 60 ? { second: "2-digit" } : {};
    return date.toLocaleTimeString(language, { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...seconds });
  }

  class Curve {
    constructor(box, { samples, since, until }) {
      this.box = box;
      this.span = since == null ? null : until - since;
      this.until = until;
      // Of a long time not every minute is told: then the shortest way between two says how far apart they are.
      const steps = samples.slice(1).map((sample, place) => sample.at - samples[place].at).filter((step) => step > 30);
      this.usual = samples.length < FEW ? MINUTE_S : Math.max(MINUTE_S, Math.min(...steps));
      this.step = this.usual;
      this.keys = box.dataset.curve.split(" ");
      this.labels = box.dataset.labels.split("|");
      this.unit = box.dataset.unit || "";
      this.data = [[], ...this.keys.map(() => [])];
      samples.forEach((sample) => this.take(sample));
      this.draw();
      new ResizeObserver(() => this.plot.setSize({ width: box.clientWidth, height: HEIGHT })).observe(box);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    }

    take(sample) {
      const last = this.data[0].at(-1);
      if (last !== undefined && sample.at <= last) return;
      if (last !== undefined) {
        const step = sample.at - last;
        // Nobody looked meanwhile, or nothing ran: no line leads across.
        if (step > (this.step < SOON_S ? SOON_S : 2.5 * this.usual)) this.push(last + step / 2, () => null);
        this.step = step;
      }
      this.push(sample.at, (key) => sample[key] ?? (key === "fresh" ? null : 0));
    }

    push(at, value) {
      this.data[0].push(at);
      this.keys.forEach((key, place) => this.data[place + 1].push(value(key)));
      if (this.data[0].length > POINTS_MAX) this.data.forEach((column) => column.shift());
    }

    /** The whole time that was chosen, whether or not something is known of it; but whoever watches a crawl that has just
     * begun sees it from its beginning on. */
    range() {
      const until = Math.max(this.until, this.data[0].at(-1) ?? 0), first = this.data[0][0] ?? until;
      const chosen = this.span === null ? first : until - this.span;
      return [Math.min(this.span <= WATCHED_S ? Math.max(chosen, first) : chosen, until - MINUTE_S), until];
    }

    draw() {
      this.plot?.destroy();
      const strokes = ["--sea", "--link", "--seen", "--warn-ink"].map(colour);
      const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
      const language = document.documentElement.lang;
      const short = new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: 1 });
      const value = (number) => (number == null ? "–" : this.unit ? size(number, short) : short.format(number));
      this.plot = new uPlot({
        width: this.box.clientWidth, height: HEIGHT, cursor: { points: { size: 6 } },
        series: [
          { label: live.dataset.time, value: (_, at) => (at == null ? "–" : `${this.span > 86400 || this.span === null ? `${moment(at, language, 86400)} ` : ""}${moment(at, language, 0)}`) },
          ...this.keys.map((key, place) => ({
            label: this.labels[place], stroke: strokes[place], width: 2, spanGaps: false, points: { show: false },
            value: (_, number) => value(number),
          })),
        ],
        axes: [
          { ...axis, space: 90, values: (_, ticks, __, ___, step) => ticks.map((at) => moment(at, language, step)) },
          { ...axis, size: 56, values: (_, ticks) => ticks.map(value) },
        ],
        scales: { x: { range: () => this.range() }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      }, this.data, this.box);
    }

    redraw() { this.plot.setData(this.data); }
  }

  async function begin() {
    const boxes = [...document.querySelectorAll("[data-curve]")];
    let curves = [];
    if (boxes.length) {
      const answer = await fetch(live.dataset.samples, { headers: { Accept: "application/json" } });
      const told = answer.ok ? await answer.json() : { samples: [], since: null, until: Date.now() / 1000 };
      curves = boxes.map((box) => new Curve(box, told));
    }
    const source = new EventSource(live.dataset.live);
    source.onmessage = (event) => {
      const news = JSON.parse(event.data);
      document.body.classList.remove("stale");
      show(news.parts);
      if (news.done) location.reload();
      if (news.sample) curves.forEach((curve) => { curve.take(news.sample); curve.redraw(); });
    };
    source.onerror = () => document.body.classList.add("stale");
  }

  if (live) begin();
}
