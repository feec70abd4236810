"use strict";
// Keeps the page up to date, and lets one point into its series. Without it the page stays as it was sent.

(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const lost = document.querySelector("[data-lost]"), said = document.querySelector("[data-said]");

  // What a person has done to a section outlives its replacement: focus, what was typed or opened, how far it is scrolled.
  const FIELDS = "a, button, input, summary, [tabindex]";
  const kept = (section) => {
    const fields = all(FIELDS, section);
    return {
      focus: fields.indexOf(document.activeElement),
      typed: all("input:not([type=hidden])", section).map((f) => [f.name, f.id, f.type === "radio" ? f.checked : f.value]),
      changed: all("input:not([type=hidden])", section).map((f) => f.type === "radio" || f.value !== f.defaultValue),
      open: all("details", section).map((d) => d.open),
      scrolled: all(".scroll", section).map((s) => [s.scrollLeft, s.scrollTop]),
    };
  };
  const restore = (section, was) => {
    all("input:not([type=hidden])", section).forEach((field, i) => {
      const [name, id, value] = was.typed[i] ?? [];
      if (!was.changed[i] || field.name !== name || field.id !== id) return;
      if (field.type === "radio") field.checked = value;
      else field.value = value;
    });
    all("details", section).forEach((d, i) => { d.open = was.open[i] ?? d.open; });
    all(".scroll", section).forEach((s, i) => { [s.scrollLeft, s.scrollTop] = was.scrolled[i] ?? [0, 0]; });
    all(FIELDS, section)[was.focus]?.focus({ preventScroll: true });
  };

  const show = (sections) => {
    for (const [name, html] of Object.entries(sections)) {
      const live = document.querySelector(`[data-live="${CSS.escape(name)}"]`);
      if (!live) continue;
      const was = kept(live);
      live.innerHTML = html;
      restore(live, was);
      const section = live.closest("section");
      if (section) section.hidden = html === "";
    }
    const word = document.querySelector(".state .word")?.textContent ?? "";
    document.title = `${document.querySelector("h1")?.textContent}: ${word}`;
    // said aloud only when it has changed: the section itself is replaced every few seconds
    const now = `${word}. ${document.querySelector(".alarm")?.textContent.trim() ?? ""}`;
    if (said.textContent !== now) said.textContent = now;
    if ("course" in sections || "readings" in sections) plots.refresh();
  };

  const follow = () => {
    let since = null;
    const source = new EventSource(`events${location.search}`);
    source.addEventListener("sections", (event) => show(JSON.parse(event.data)));
    source.addEventListener("reload", () => location.reload());
    source.onopen = () => { since = null; lost.hidden = true; };
    source.onerror = () => {
      since ??= new Date();
      const at = since.toISOString().slice(11, 19);
      lost.textContent = `\u25b2 Connection lost since ${at} UTC: what is shown is as old as that. Trying again.`;
      lost.hidden = false;
      if (source.readyState === EventSource.CLOSED) { source.close(); setTimeout(follow, 5000); }
    };
  };

  // Series ----------------------------------------------------------------------------------------------------------

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const label = (value) => (value == null ? "\u2013" : Number(value.toPrecision(6)).toLocaleString("en-GB").replaceAll(",", "\u202f"));

  const GUTTER = 0.075; // of the width, as in the drawings, so that what stands below has the same axis
  const options = (width, height, x, unit, series, band, words = {}) => ({
    width, height,
    padding: [22, 0, 0, 0],
    cursor: { drag: { x: true, y: false } },
    scales: { x: { time: false, range: (u, low, high) => [x === "trial" ? low - 0.5 : 0, x === "trial" ? high + 0.5 : high] } },
    axes: [
      { stroke: colour("--soft"), grid: { show: false }, ticks: { show: false }, size: 22, gap: 4, font: "12px system-ui" },
      {
        stroke: colour("--soft"), grid: { stroke: colour("--hair"), width: 1 }, ticks: { show: false }, font: "12px system-ui",
        size: width * GUTTER, gap: width * GUTTER, align: 1, values: (u, at) => at.map((v) => (Object.keys(words).length ? words[v] ?? "" : label(v))),
      },
    ],
    series: [{ label: x, value: (u, v) => label(v) }, ...series.map((s) => ({ value: (u, v) => (v == null ? "\u2013" : words[v] ?? `${label(v)} ${unit}`), ...s }))],
    hooks: { drawClear: band ? [(u) => {
      const top = u.valToPos(band[1], "y", true), low = u.valToPos(band[0], "y", true);
      u.ctx.fillStyle = colour("--normal");
      u.ctx.fillRect(u.bbox.left, Math.max(top, u.bbox.top), u.bbox.width, Math.min(low, u.bbox.top + u.bbox.height) - Math.max(top, u.bbox.top));
    }] : [] },
  });
  const dots = (name, size, stroke, fill) => ({ label: name, paths: () => null, points: { show: true, size, stroke, fill, width: 1.5 } });

  const plots = {
    drawn: [], waiting: 0, data: null, closer: new Set(),
    toggle(name) {
      if (!this.closer.delete(name)) this.closer.add(name);
      this.refresh(0);
    },
    refresh(after = 3000) {
      this.mark();
      if (this.waiting || !this.closer.size) return void (this.closer.size || this.draw());
      this.waiting = setTimeout(async () => {
        this.waiting = 0;
        const answer = await fetch("data/series.json").catch(() => null);
        if (answer?.ok) { this.data = await answer.json(); this.draw(); }
      }, after);
      if (this.data) this.draw();
    },
    mark() {
      for (const button of all("[data-closer]")) {
        button.hidden = typeof uPlot === "undefined";
        button.setAttribute("aria-pressed", this.closer.has(button.dataset.closer));
      }
    },
    draw() {
      this.drawn.forEach((plot) => plot?.destroy());
      this.drawn = all("[data-plot]").map((place) => {
        const wanted = this.closer.has(place.dataset.plot === "course" ? "course" : "readings") && this.data?.trials > 1;
        place.hidden = !wanted;
        place.parentElement.classList.toggle("plotted", wanted);
        if (!wanted) return null;
        const plot = place.dataset.plot === "course" ? this.course(place) : this.reading(place);
        for (const canvas of all("canvas", place)) Object.assign(canvas, { role: "img", ariaLabel: place.dataset.label });
        return plot;
      });
    },
    course(place) {
      const { course } = this.data, along = document.querySelector("input[name=along]:checked")?.value ?? "money";
      const x = course.x[along];
      const best = { label: "best so far", stroke: colour("--found"), width: 2, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } };
      const series = [dots(course.label, 5, colour("--dot"), colour("--dot")), best];
      return new uPlot(options(place.clientWidth, 210, x.label, course.unit, series), [x.values, course.outcome, course.best], place);
    },
    reading(place) {
      const found = this.data.readings.find((r) => r.name === place.dataset.name);
      if (!found || !found.x.length) return null;
      const series = [
        dots("uncontrolled", 5, colour("--dot"), colour("--dot")),
        dots("controlled", 6, colour("--ink"), colour("--ink")),
      ];
      return new uPlot(options(place.clientWidth, 150, "trial", found.unit, series, found.band, found.words), [found.x, found.alone, found.held], place);
    },
  };

  addEventListener("click", (event) => {
    const button = event.target.closest("[data-closer]");
    if (button) plots.toggle(button.dataset.closer);
  });
  addEventListener("change", (event) => { if (event.target.name === "along") plots.draw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.draw());
  let wide = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== wide) { wide = innerWidth; plots.draw(); } });
  plots.mark();
  const wall = document.querySelector("[data-wall]");
  const look = async () => {
    const answer = await fetch(wall.dataset.wall).catch(() => null);
    if (answer?.ok) wall.innerHTML = await answer.text();
    lost.textContent = "\u25b2 Connection lost: what is shown is old. Trying again.";
    lost.hidden = answer?.ok === true;
    const now = all(".abnormal, .alarm", wall).map((e) => e.closest("section").ariaLabel).join(", ");
    if (said.textContent !== now) said.textContent = now;
    setTimeout(look, 5000);
  };
  if (wall) look();
  else if (location.protocol.startsWith("http")) follow();
})();
