// What is raised, since when, and was anything missed?

import { html, useState } from "../vendor/htm-preact.js";
import { get, query } from "../api.js";
import { live, nameOf, now, unalerted, unitOf, useLive } from "../live.js";
import { Age, Failed, Heading, Icon, Mark, Note, Place, Table, useGet } from "../parts.js";
import { count, groups, inText, lasting, list, missing, number, raisedBy, told as inWords, when } from "../words.js";

const PAGE = 50;

// What stands in the log in the place of alerts that the gateway, or a master before it, never had.
const lost = (entry) => Boolean(entry.gap) || entry.attributes?.kind === "lost";
const told = (entry) => (entry.gap ? entry.gap.message : inWords(entry.attributes, nameOf));
const valued = ({ value, area, metric }) => `${number(value)} ${unitOf(area, metric)}`.trim();
const at = (entry) => entry.time_ms ?? entry.received_ms;

/** A trigger that holds now, pinned above the log. */
function Pinned({ raised: r }) {
  const plain = r.value === undefined || r.value === null ? "" : `${inText(r.metric ?? "value")} ${valued(r)} when it was raised`;
  const { condition, measured } = r.text ? raisedBy(r.text, (channel) => unitOf(r.area, channel)) : { condition: "", measured: plain };
  return html`<li class="card raised"><${Mark} state="raised" word=${r.trigger} /><${Place} area=${r.area} name=${nameOf(r.area)} /><p>${measured}</p>${condition ? html`<p class="quiet"><code>${condition}</code></p>` : null}<p class="quiet">for ${lasting(r.since_ms, now())}, since ${when(r.since_ms)}${silence(live.rooms[r.area], ". Not heard now: ")}</p></li>`;
}

/** Why nothing is heard of a room, with words before it, or "". */
const silence = (room, before = "") => (room && room.state !== "live" ? `${before}${missing(room.reason)}` : "");

/** What is not heard now, in words: no alert comes from there. "" if all is, or none was yet. */
function unheard(state) {
  if (state.link === "away" || state.source?.state !== "up") return "";
  const reasons = groups([...Object.values(state.rooms), ...state.missing], (each) => (each.state === undefined ? missing(each.reason) : silence(each)));
  reasons.delete("");
  const named = (each) => nameOf(each.area) || each.area;
  return list([...reasons].map(([why, all]) => `${all.length > 3 ? count(all.length, "area") : list(all.map(named))} (${why})`));
}

export default function Alerts() {
  const state = useLive();
  const [first, problem, again] = useGet(`alerts?${query({ of: "alerts", limit: PAGE })}`);
  const [nowRaised] = useGet("alerts/raised", 60_000);
  const [older, setOlder] = useState({ alerts: [], cursor: undefined });
  const [words, search] = useState("");
  const [asking, ask] = useState(false);

  const seen = new Map();
  for (const alert of [...state.alerts, ...(first?.alerts ?? []), ...older.alerts]) seen.set(alert.position, alert);
  const all = [...seen.values()].sort((a, b) => b.position - a.position);
  const needle = words.trim().toLowerCase();
  const found = all.filter((a) => `${told(a)} ${a.attributes?.area ?? ""}`.toLowerCase().includes(needle));
  const raised = state.raised ?? nowRaised?.raised;
  const cursor = older.cursor === undefined ? first?.cursor : older.cursor;
  const gone = all.filter(lost);
  const silent = unheard(state);
  const stopped = unalerted(state);
  const held = stopped ? "when last heard" : "now";
  const more = async () => {
    ask(true);
    try {
      const page = await get(`alerts?${query({ of: "alerts", limit: PAGE, cursor })}`);
      setOlder({ alerts: [...older.alerts, ...page.alerts], cursor: page.cursor ?? null });
    } finally {
      ask(false);
    }
  };

  return html`
    <${Heading} text="Alerts"><p class="lead">${raised ? (raised.length ? html`<b>${count(raised.length, "alert")} raised ${held}.</b>` : `Nothing ${stopped ? "was" : "is"} raised ${held}.`) : "Asking …"}</p><//>
    ${raised?.length
      ? html`<ul class="cards">${raised.map((r) => html`<${Pinned} key="${r.trigger} ${r.area}" raised=${r} />`)}</ul>`
      : null}
    ${silent ? html`<${Note} kind="warm"><p><${Icon} kind="stale" /> <b>Not heard now:</b> ${silent}. What is raised or cleared there shows once it is heard again.</p><//>` : null}
    ${stopped ? html`<${Note} kind="warm"><p><${Icon} kind="stale" /> <b>No alerts come now:</b> ${stopped}. What is raised or cleared meanwhile waits at the master.</p><//>` : null}
    ${!all.length ? null : html`<${Note} kind=${gone.length ? "bad" : silent || stopped ? "" : "well"}><p><${Icon} kind=${gone.length ? "bad" : "well"} /> ${gone.length ? html`<b>Something was missed.</b>` : html`<b>Nothing was missed</b>${stopped ? " of what has come," : silent ? " of what is heard," : ""} since ${when(at(all.at(-1)))}, as far back as this page looks.`}</p>${gone.length ? html`<ul>${gone.map((entry) => html`<li key=${entry.position}>${when(at(entry))}: ${told(entry)}${entry.attributes?.iad ? ` by ${entry.attributes.iad}` : ""}</li>`)}</ul>` : null}<//>`}
    <h2>Log</h2>
    <div class="tools"><label class="search"><span class="unseen">Search alerts</span><input type="search" placeholder="Search: a trigger or a room …" value=${words} onInput=${(e) => search(e.target.value)} /></label></div>
    ${problem ? html`<${Failed} problem=${problem} again=${again} />` : null}
    <${Table} caption="Alerts, the newest first" hidden empty=${first ? (all.length ? "No alert fits this search." : html`No alert has come yet. Triggers of nodes raise them: <code>docs/use/triggers.md</code>`) : "Asking …"}
      head=${["What and when", { text: "Where" }, { n: "Value" }]}
      rows=${found.map((a) => ({
        key: a.position,
        mark: lost(a) ? "bad" : "",
        cells: [
          html`<${Mark} state=${lost(a) ? "bad" : a.attributes.kind === "raised" ? "raised" : "well"} word=${lost(a) ? "lost" : `${a.attributes.trigger ?? ""} ${a.attributes.kind ?? ""}`} why=${html`${when(at(a))}, <${Age} ms=${at(a)} /> ago`} />`,
          a.attributes?.area ? html`<${Place} area=${a.attributes.area} name=${nameOf(a.attributes.area)} />` : lost(a) ? told(a) : "–",
          a.attributes?.value === undefined ? "–" : `${a.attributes.metric ?? ""} ${valued(a.attributes)}`,
        ],
      }))} />
    ${cursor ? html`<p><button type="button" disabled=${asking} onClick=${more}>${asking ? "Asking …" : "Older alerts"}</button></p>` : null}`;
}
