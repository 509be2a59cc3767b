// Which node, sensor, queue or release is ill? For operators.

import { html, useState } from "../vendor/htm-preact.js";
import { session } from "../api.js";
import { nameOf, useLive } from "../live.js";
import { Age, Answered, ForOperators, Heading, Mark, NoOperator, Note, Table, Tile, Tiles, useGet } from "../parts.js";
import { count, list, when, whole } from "../words.js";

const STATES = { live: ["well", "Live"], lost: ["bad", "Lost"], left: ["missing", "Left"] };

/** What ails a node, the worst first, in words. */
export function ailments(node, version) {
  const found = [];
  if (node.state === "lost") found.push("no heartbeat");
  for (const f of node.faults ?? []) found.push(`${f.sensor} ${f.channel}: ${f.text} since ${when(f.since_ms)}`);
  if (node.events_dropped) found.push(`${count(node.events_dropped, "event")} given up`);
  if (node.events_waiting > 100) found.push(`${count(node.events_waiting, "event")} waiting`);
  if (node.state === "live" && node.queued > 0 && !node.idle_pods) found.push(`${count(node.queued, "subtask")} in its queue, no idle pod`);
  if ((node.version ?? "") !== version) found.push(`release ${node.version || "of a checkout"}, its master has ${version || "a checkout"}`);
  return found;
}

/** Which nodes are not among these, though their rooms are. */
function others(iad, iads) {
  const names = (iads ?? []).filter((name) => name !== iad);
  if (!names.length) return "";
  return `Nodes of ${list(names)} are shown by a gateway whose configuration names that domain’s operator.`;
}

function Status({ status }) {
  const [only, show] = useState(false);
  const [who] = useGet("session", 30_000); // domains are known once rooms were watched
  const version = status.version ?? "";
  const rows = status.nodes.map((node) => ({ node, ails: ailments(node, version) })).sort((a, b) => (b.node.state === "lost") - (a.node.state === "lost") || b.ails.length - a.ails.length || a.node.node.localeCompare(b.node.node, "en", { numeric: true }));
  const ill = rows.filter((r) => r.ails.length);
  const sum = (key) => status.nodes.reduce((total, node) => total + (node[key] ?? 0), 0);
  const live = status.nodes.filter((n) => n.state === "live").length;
  return html`
    <${Tiles}><${Tile} value="${live}/${status.nodes.length}" label="nodes live" state=${live < status.nodes.length ? "bad" : ""} /><${Tile} value=${whole(sum("queued"))} label="subtasks waiting" /><${Tile} value="${sum("idle_pods")}/${sum("pods")}" label="pods idle" /><${Tile} value=${whole(status.open_queries ?? 0)} label="open questions" /><${Tile} value=${status.nodes.reduce((n, node) => n + (node.faults?.length ?? 0), 0)} label="open faults of sensors" /><//>
    ${status.unreachable_iads?.length ? html`<${Note} kind="bad"><p><b>Not reached:</b> ${list(status.unreachable_iads)}.</p><//>` : null}
    <p>This is the fleet of <b>${status.iad}</b>: policy ${status.policy}, release ${version || "of a checkout"}. ${others(status.iad, who?.iads)}</p>
    <div class="tools"><label class="check"><input type="checkbox" checked=${only} onChange=${(e) => show(e.target.checked)} /> Only the ${count(ill.length, "node")} that ${ill.length === 1 ? "ails" : "ail"}</label></div>
    <${Table} caption="Nodes, those that ail first" hidden empty="No node ails." head=${["Node", "State", { text: "What ails it" }, { text: "Areas" }, { n: "Queue" }, { n: "Idle pods" }, { n: "Pods" }, "Release"]}
      rows=${(only ? ill : rows).map(({ node, ails }) => ({
        key: node.node,
        mark: node.state === "lost" ? "bad" : ails.length ? "warm" : "",
        cells: [html`<b>${node.node}</b>`, html`<${Mark} state=${STATES[node.state]?.[0] ?? "missing"} word=${STATES[node.state]?.[1] ?? node.state} />`, ails.length ? html`<ul class="plain">${ails.map((a) => html`<li>${a}</li>`)}</ul>` : "nothing", list(node.areas.map((a) => nameOf(a) || a)), whole(node.queued), whole(node.idle_pods), whole(node.pods), node.version || "checkout"],
      }))} />
    <details><summary>Counters of the master</summary><${Table} caption="Counters" hidden head=${["Counter", { n: "Count" }]} rows=${Object.entries(status.counters ?? {}).map(([name, n]) => ({ key: name, cells: [name.replaceAll("_", " "), whole(n)] }))} /></details>`;
}

export default function Fleet() {
  useLive(5000);
  return html`<${Heading} text="Fleet"><p class="lead">Which node, sensor, queue or release is ill.</p><//>
    <${ForOperators}><${Asked} /><//>`;
}

function Asked() {
  if (!session.operator) return html`<${NoOperator} />`;
  return html`<${Polled} />`;
}

function Polled() {
  const found = useGet("fleet", 5000);
  return html`<${Answered} of=${found}>${(status) => html`<${Status} status=${status} />`}<//>`;
}
