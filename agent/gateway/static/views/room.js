// What happened in a room: minutes to days, with marks where values were bad or missing.

import { html, useEffect, useMemo, useState } from "../vendor/htm-preact.js";
import { query } from "../api.js";
import { Chart } from "../chart.js";
import { byName, judge, limits, newest } from "../comfort.js";
import { asHeard, nameOf, now, unalerted, useLive } from "../live.js";
import { Age, Answered, Heading, Mark, Note, Table, useGet } from "../parts.js";
import { count, day, duration, list, minute, number, missing, portion, title, told, when, whole, withUnit } from "../words.js";

// How far back: its name, its words, points of the picture, and ms.
const LASTS = [
  ["10m", "10 minutes", 120, 600_000],
  ["1h", "1 hour", 120, 3_600_000],
  ["6h", "6 hours", 180, 21_600_000],
  ["24h", "24 hours", 288, 86_400_000],
  ["3d", "3 days", 288, 259_200_000],
];
const WHOLE_DAY = LASTS[3];
const ROWS = 24;

/** The shortest time back, a day at most, that has every reading of a day's answer. */
export function fitting({ start_ms, length_ms, channels }, at = now()) {
  const firsts = Object.values(channels).map((c) => c.count.findIndex((n, i) => n || c.bad?.[i])).filter((i) => i >= 0);
  if (!firsts.length) return WHOLE_DAY;
  const back = at - (start_ms + Math.min(...firsts) * length_ms);
  return LASTS.find(([, , , span]) => back <= span || span === WHOLE_DAY[3]);
}

/** Sums up buckets, `into` rows of them. */
export function summed({ start_ms, length_ms }, c, into = ROWS) {
  const size = Math.max(1, Math.ceil(c.count.length / into));
  const rows = [];
  for (let from = 0; from < c.count.length; from += size) {
    const row = { start_ms: start_ms + from * length_ms, end_ms: start_ms + Math.min(from + size, c.count.length) * length_ms, count: 0, bad: 0, min: null, max: null, mean: null };
    let sum = 0;
    for (let i = from; i < Math.min(from + size, c.count.length); i++) {
      row.bad += c.bad?.[i] ?? 0;
      if (!c.count[i]) continue;
      row.count += c.count[i];
      sum += c.mean[i] * c.count[i];
      row.min = row.min === null ? c.min[i] : Math.min(row.min, c.min[i]);
      row.max = row.max === null ? c.max[i] : Math.max(row.max, c.max[i]);
    }
    row.mean = row.count ? sum / row.count : null;
    rows.push(row);
  }
  return rows;
}

/** Stretches of at least two buckets without a reading: [from, to) in ms. */
function silences({ start_ms, length_ms }, c) {
  const found = [];
  let from = null;
  for (let i = 0; i <= c.count.length; i++) {
    const silent = i < c.count.length && !c.count[i] && !c.bad?.[i];
    if (silent) from ??= i;
    else if (from !== null) {
      if (i - from > 1) found.push([start_ms + from * length_ms, start_ms + i * length_ms]);
      from = null;
    }
  }
  return found;
}

function inWords(answer, channel, c, unit) {
  const [all] = summed(answer, c, 1);
  if (!all || (!all.count && !all.bad)) return `${title(channel)}: no readings in this time.`;
  if (!all.count) return `${title(channel)}: all ${whole(all.bad)} readings are bad; the sensor gives no measurement.`;
  const at = (values, value) => minute(answer.start_ms + (values.indexOf(value) + 0.5) * answer.length_ms);
  const parts = [`${title(channel)}: lowest ${withUnit(all.min, unit)} at ${at(c.min, all.min)}, highest ${withUnit(all.max, unit)} at ${at(c.max, all.max)}, mean ${withUnit(all.mean, unit)}.`];
  if (all.bad) parts.push(`${count(all.bad, "bad reading")} (${portion(all.bad / (all.count + all.bad))}), marked × at the foot.`);
  const silent = silences(answer, c);
  if (silent.length) {
    const longest = silent.reduce((a, b) => (b[1] - b[0] > a[1] - a[0] ? b : a));
    parts.push(`No readings for ${duration(silent.reduce((sum, [a, b]) => sum + b - a, 0))} (grey), the longest ${minute(longest[0])} to ${minute(longest[1])}.`);
  }
  return parts.join(" ");
}

function Channel({ answer, channel, wide }) {
  const c = answer.channels[channel];
  const unit = answer.unit?.[channel] ?? "";
  const data = useMemo(() => {
    const x = c.mean.map((_, i) => (answer.start_ms + (i + 0.5) * answer.length_ms) / 1000);
    return [x, c.mean, c.min, c.max];
  }, [answer, channel]);
  const bound = limits()[channel] ?? [];
  const read = (i) => {
    const time = `${day(data[0][i] * 1000)}, ${minute(data[0][i] * 1000)}`;
    if (!c.count[i]) return `${time}: ${c.bad?.[i] ? `${count(c.bad[i], "bad reading")}, no good one` : "no readings"}`;
    return `${time}: mean ${withUnit(c.mean[i], unit)}, ${number(c.min[i])} to ${number(c.max[i])}, ${count(c.count[i], "reading")}${c.bad?.[i] ? `, ${whole(c.bad[i])} bad` : ""}`;
  };
  const rows = summed(answer, c);
  const long = answer.length_ms * c.count.length > 86_400_000 * 1.01;
  return html`<section class="card channel">
    <h2>${title(channel)} ${unit ? html`<small>${unit}</small>` : null}</h2>
    <div class="beside">
      <${Chart} data=${data} band series=${["mean"]} columns=${c} limits=${bound} label=${inWords(answer, channel, c, unit)} read=${read} />
      <details open=${wide}><summary>The same as a table</summary>
        <${Table} hidden caption="${title(channel)}, ${rows.length} times of ${duration(rows[0] ? rows[0].end_ms - rows[0].start_ms : 0)}" head=${["From", { n: "Lowest" }, { n: "Mean" }, { n: "Highest" }, { n: "Readings" }, { n: "Bad" }]}
          rows=${rows.map((r) => ({ key: r.start_ms, mark: r.count ? "" : "bad", cells: [long ? `${day(r.start_ms)}, ${minute(r.start_ms)}` : minute(r.start_ms), number(r.min), number(r.mean), number(r.max), whole(r.count), r.bad ? whole(r.bad) : "–"] }))} />
      </details>
    </div>
  </section>`;
}

function Now({ room }) {
  const judged = judge(asHeard(room), limits());
  return html`<div class="now">
    <${Mark} state=${judged.state} why=${judged.why} />
    ${Object.entries(room.channels).sort(([a], [b]) => byName(a, b)).map(([name, r]) => html`<p class="big" key=${name}><b class=${r.quality === "bad" ? "bad" : ""}>${r.quality === "bad" ? "bad" : number(r.value)}</b> ${r.quality === "bad" ? "" : r.unit} <small>${title(name)}, <${Age} ms=${r.time_ms} /> old${r.quality === "suspect" ? ", suspect: it may be wrong" : ""}</small></p>`)}
    ${newest(room) === null ? html`<p class="quiet">No values yet.</p>` : null}
  </div>`;
}

export default function Room({ rest: area, asked }) {
  const state = useLive();
  // Chosen once, by the day's readings: a picture that grows out of it does not change its scale.
  const [fit, choose] = useState(null);
  const wanted = LASTS.find(([key]) => key === asked.last) ?? fit;
  const [key, , points] = wanted ?? WHOLE_DAY;
  const found = useGet(`readings?${query({ area, last: key, points })}`, 60_000);
  const [answer] = found;
  useEffect(() => {
    if (answer && !wanted) choose(fitting(answer));
  }, [answer, wanted]);
  const room = state.rooms[area];
  const name = nameOf(area);
  const wide = matchMedia("(min-width: 64rem)").matches;
  const raised = (state.raised ?? []).filter((r) => r.area === area);
  const alerts = state.alerts.filter((a) => a.attributes?.area === area).slice(0, 5);
  return html`
    <${Heading} text=${name || area}><p class="lead">${name ? html`${area} · ` : null}<a href="#/rooms">All rooms</a> · <a href="#/ask?area=${area}">Ask about this room</a></p><//>
    ${room ? html`<${Now} room=${room} />` : state.heard !== null ? html`<${Note}><p>Nothing is known of ${area} now.</p><//>` : null}
    ${raised.length ? html`<${Note} kind="warm"><p><b>Raised ${unalerted(state) ? "when last heard" : "now"}:</b> ${list(raised.map((r) => `${r.trigger}, since ${when(r.since_ms)}`))}</p><//>` : null}
    <div class="chips" role="group" aria-label="How far back">${LASTS.map(([each, words]) => html`<a key=${each} class="chip" href="#/room/${area}?last=${each}" aria-current=${each === wanted?.[0] ? "true" : null}>${words}</a>`)}</div>
    <${Answered} of=${wanted ? found : [undefined, found[1], found[2]]}>${(answer) => html`
      ${answer.missing?.length ? html`<${Note} kind="bad"><p><b>${Object.keys(answer.channels).length ? "Not all of it" : "Nothing of it"} is here:</b> ${list([...new Set(answer.missing.map((m) => (m.area === area ? missing(m.reason) : `${m.area}: ${missing(m.reason)}`)))])}.</p><//>` : null}
      ${Object.keys(answer.channels).sort(byName).map((channel) => html`<${Channel} key=${channel} answer=${answer} channel=${channel} wide=${wide} />`)}
      ${Object.keys(answer.channels).length || answer.missing?.length ? null : html`<p class="quiet">No readings in this time.</p>`}`}<//>
    ${alerts.length ? html`<section><h2>Latest alerts here</h2><ul class="plain">${alerts.map((a) => html`<li key=${a.position}>${when(a.time_ms)}: ${told(a.attributes, nameOf)}</li>`)}</ul></section>` : null}`;
}
