// A picture of columns over time or over a rate, by uPlot, which comes only when a picture is shown.
// A screen reader gets the sentence of `label`; the numbers stand in a table beside each picture.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

let library = null;

function element(name, properties) {
  return new Promise((done, failed) => {
    const added = Object.assign(document.createElement(name), properties, { onload: done, onerror: failed });
    document.head.append(added);
  });
}

/** uPlot and its style, once. */
function load() {
  library ??= Promise.all([
    element("link", { rel: "stylesheet", href: "/static/vendor/uPlot.css" }),
    element("script", { src: "/static/vendor/uPlot.js" }),
  ]).then(() => window.uPlot);
  library.catch(() => (library = null));
  return library;
}

const DARK = matchMedia("(prefers-color-scheme: dark)");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const faint = (text, share) => `color-mix(in srgb, ${text} ${share}%, transparent)`;

function axes(uPlot, options) {
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const common = { stroke: colour("soft"), font, ticks: { show: false }, grid: { stroke: colour("line"), width: 1 } };
  const days = [
    [3600 * 24 * 365, "{YYYY}", null, null, null, null, null, null, 1],
    [3600 * 24, "{D} {MMM}", null, null, null, null, null, null, 1],
    [3600, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
    [60, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
    [1, "{HH}:{mm}:{ss}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
  ];
  return [
    { ...common, ...(options.time === false ? { label: options.xLabel, labelFont: font, labelSize: 20, labelGap: 0, size: 30 } : { values: days }), space: 64, grid: { show: false } },
    { ...common, size: 52, space: 36, values: (_, splits) => splits.map((v) => (v === null ? "" : `${+v.toFixed(2)}`)) },
  ];
}

/** Stretches without a value, and marks at the foot where values were bad. */
function marks(columns) {
  return {
    hooks: {
      drawClear: [
        (u) => {
          if (!columns.count) return;
          const { left, top, width, height } = u.bbox;
          u.ctx.save();
          u.ctx.beginPath();
          u.ctx.rect(left, top, width, height);
          u.ctx.clip();
          u.ctx.fillStyle = faint(colour("soft"), 12);
          const x = u.data[0];
          const step = x.length > 1 ? x[1] - x[0] : 1;
          columns.count.forEach((n, i) => {
            if (n) return;
            const from = u.valToPos(x[i] - step / 2, "x", true);
            u.ctx.fillRect(from, top, u.valToPos(x[i] + step / 2, "x", true) - from + 0.6, height);
          });
          u.ctx.restore();
        },
      ],
      draw: [
        (u) => {
          if (!columns.bad) return;
          const { top, height } = u.bbox;
          const reach = 3 * devicePixelRatio;
          u.ctx.save();
          u.ctx.strokeStyle = colour("bad");
          u.ctx.lineWidth = 1.5 * devicePixelRatio;
          u.ctx.beginPath();
          let before = -Infinity;
          const foot = top + height - reach - 2 * devicePixelRatio;
          columns.bad.forEach((n, i) => {
            const at = u.valToPos(u.data[0][i], "x", true);
            if (!n || at - before < 3.5 * reach) return; // marks that touch are a blot
            before = at;
            u.ctx.moveTo(at - reach, foot - reach);
            u.ctx.lineTo(at + reach, foot + reach);
            u.ctx.moveTo(at + reach, foot - reach);
            u.ctx.lineTo(at - reach, foot + reach);
          });
          u.ctx.stroke();
          u.ctx.restore();
        },
      ],
    },
  };
}

/** Lines at values that matter, such as the limits of comfort. */
function bounds(values) {
  return {
    hooks: {
      draw: [
        (u) => {
          const { left, width, top, height } = u.bbox;
          u.ctx.save();
          u.ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
          u.ctx.strokeStyle = colour("warm");
          u.ctx.lineWidth = devicePixelRatio;
          for (const value of values) {
            const y = Math.round(u.valToPos(value, "y", true)) + 0.5;
            if (y < top || y > top + height) continue;
            u.ctx.beginPath();
            u.ctx.moveTo(left, y);
            u.ctx.lineTo(left + width, y);
            u.ctx.stroke();
          }
          u.ctx.restore();
        },
      ],
    },
  };
}

const INKS = ["ink-1", "ink-2", "ink-3", "ink-4", "ink-5"];
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5]];

function options(uPlot, width, height, { series, band, limits = [], columns = {}, told, ...rest }) {
  const lines = series.map((name, i) => ({
    label: name,
    stroke: colour(INKS[i % INKS.length]),
    width: 1.75,
    dash: rest.time === false ? DASHES[i % DASHES.length] : [],
    points: { show: false },
    spanGaps: false,
  }));
  // Lowest and highest are the edges of a band, without lines of their own.
  const edge = (label) => ({ label, stroke: "transparent", points: { show: false }, spanGaps: false });
  return {
    width,
    height,
    padding: [10, 12, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    scales: { x: { time: rest.time !== false }, y: { range: (u, low, high) => reach(low, high, rest.least) } },
    axes: axes(uPlot, rest),
    series: [{}, ...lines, ...(band ? [edge("lowest"), edge("highest")] : [])],
    bands: band ? [{ series: [3, 2], fill: faint(colour(INKS[0]), 20) }] : [],
    plugins: [marks(columns), bounds(limits), { hooks: { setCursor: [(u) => told(u.cursor.idx)] } }],
  };
}

function reach(low, high, least = 1) {
  if (low === null || high === null) return [0, 1];
  const spare = Math.max((high - low) * 0.08, (least - (high - low)) / 2, 0);
  return [low - spare, high + spare];
}

/**
 * A picture. `data`: [x, line, line …], with `band` also lowest and highest. `read(i)` says in words
 * what stands at the i-th place: it is shown under the pointer's place.
 */
export function Chart({ data, label, read, height = 240, ...rest }) {
  const box = useRef();
  const [at, point] = useState(null);
  const [failed, fail] = useState(false);
  const [dark, turn] = useState(DARK.matches);
  useEffect(() => {
    const turned = () => turn(DARK.matches);
    DARK.addEventListener("change", turned);
    return () => DARK.removeEventListener("change", turned);
  }, []);
  useEffect(() => {
    let plot = null;
    let watch = null;
    let gone = false;
    load().then(
      (uPlot) => {
        if (gone) return;
        const width = () => Math.max(200, Math.floor(box.current.clientWidth));
        plot = new uPlot(options(uPlot, width(), height, { ...rest, told: point }), data, box.current);
        watch = new ResizeObserver(() => plot.width !== width() && plot.setSize({ width: width(), height }));
        watch.observe(box.current);
      },
      () => fail(true),
    );
    return () => {
      gone = true;
      watch?.disconnect();
      plot?.destroy();
    };
  }, [data, height, dark]);
  return html`<figure class="chart">
    <div class="plot" style=${{ minHeight: `${height}px` }} ref=${box} role="img" aria-label=${label}></div>
    <figcaption>${failed ? "The picture could not be loaded; the table has its numbers." : (at !== null && read?.(at)) || label}</figcaption>
  </figure>`;
}
