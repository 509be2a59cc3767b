// Which node, sensor, queue or release has a problem? For operators.

import { html, useState } from "../vendor/htm-preact.js";
import { session } from "../api.js";
import { nameOf, useLive } from "../live.js";
import { Age, Answered, ForOperators, Heading, Mark, NoOperator, Note, Table, Tile, Tiles, useGet } from "../parts.js";
import { count, list, when, whole } from "../words.js";

const STATES = { live: ["well", "Live"], lost: ["bad", "Lost"], left: ["missing", "Left"] };

/** Problems of a node, the worst first, in words. */
export function problemsOf(node, version) {
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
function others(shown, iads) {
  const names = (iads ?? []).filter((name) => !shown.includes(name));
  if (!names.length) return "";
  return `Nodes of ${list(names)} are shown by a gateway whose configuration names ${names.length > 1 ? "those domains’ operators" : "that domain’s operator"}.`;
}

const released = (status) => status.version || "of a checkout";

/** Each domain with its master's word, those that do not answer first. */
function Domains({ iads }) {
  const order = [...iads].sort((a, b) => !!a.status - !!b.status || a.iad.localeCompare(b.iad, "en", { numeric: true }));
  return html`<h2>Domains</h2>
    <${Table} caption="Domains" hidden head=${["Domain", "Its master", { n: "Nodes live" }, { n: "Waiting" }, { n: "Open questions" }, "Policy", "Release", { text: "Not reached" }]}
      rows=${order.map(({ iad, status, problem, nodes }) => ({
        key: iad,
        mark: !status ? "bad" : lost(status) ? "warm" : "",
        cells: status
          ? [html`<b>${iad}</b>`, html`<${Mark} state="well" word="answers" />`, `${status.nodes.length - lost(status)}/${status.nodes.length}`, whole(sum(status.nodes, "queued")), whole(status.open_queries ?? 0), status.policy, status.version || "checkout", list(status.unreachable_iads ?? []) || "–"]
          : [html`<b>${iad}</b>`, html`<${Mark} state="bad" word="does not answer" why=${problem} />`, nodes ? `?/${nodes}` : "–", ...Array(5).fill("–")],
      }))} />`;
}

const sum = (nodes, key) => nodes.reduce((total, node) => total + (node[key] ?? 0), 0);
const lost = (status) => status.nodes.filter((n) => n.state !== "live").length;

function Nodes({ told, silent, several }) {
  const [only, show] = useState(false);
  const rows = told
    .flatMap(({ iad, status }) => status.nodes.map((node) => ({ iad, rooms: status.rooms ?? {}, node, problems: problemsOf(node, status.version ?? "") })))
    .sort((a, b) => (b.node.state === "lost") - (a.node.state === "lost") || b.problems.length - a.problems.length || `${a.iad} ${a.node.node}`.localeCompare(`${b.iad} ${b.node.node}`, "en", { numeric: true }));
  const troubled = rows.filter((r) => r.problems.length);
  return html`
    ${troubled.length ? html`<div class="tools"><label class="check"><input type="checkbox" checked=${only} onChange=${(e) => show(e.target.checked)} /> Only the ${count(troubled.length, "node")} with problems</label></div>` : rows.length ? html`<p>${silent.length ? `No node has a problem, of those whose masters answer; ${list(silent)} ${silent.length > 1 ? "do" : "does"} not.` : "No node has a problem."}</p>` : null}
    <${Table} caption="Nodes, those with problems first" hidden empty=${told.length ? "No node has joined yet." : "No node is known: no master answers."} head=${["Node", ...(several ? ["Domain"] : []), "State", { text: "Problems" }, { text: "Areas" }, { n: "Queue" }, { n: "Idle pods" }, { n: "Pods" }, "Release"]}
      rows=${(only && troubled.length ? troubled : rows).map(({ iad, rooms, node, problems }) => ({
        key: `${iad} ${node.node}`,
        mark: node.state === "lost" ? "bad" : problems.length ? "warm" : "",
        cells: [html`<b>${node.node}</b>`, ...(several ? [iad] : []), html`<${Mark} state=${STATES[node.state]?.[0] ?? "missing"} word=${STATES[node.state]?.[1] ?? node.state} />`, problems.length ? html`<ul class="plain">${problems.map((a) => html`<li>${a}</li>`)}</ul>` : "none", list(node.areas.map((a) => nameOf(a) || rooms[a] || a)), whole(node.queued), whole(node.idle_pods), whole(node.pods), node.version || "checkout"],
      }))} />`;
}

function Status({ iads }) {
  const [who] = useGet("session", 30_000); // domains are known once rooms were watched
  const told = iads.filter((each) => each.status);
  const several = iads.length > 1;
  const silent = iads.filter((each) => !each.status);
  const nodes = told.flatMap(({ status }) => status.nodes);
  // What is not told is not live, as far as anybody knows.
  const silentNodes = sum(silent, "nodes");
  const uncounted = silent.filter((each) => !each.nodes).map((each) => each.iad);
  const liveNodes = nodes.filter((n) => n.state === "live");
  const live = liveNodes.length;
  const rest = others(iads.map((each) => each.iad), who?.iads);
  const [first] = told;
  return html`
    <${Tiles}>${several ? html`<${Tile} value="${told.length}/${iads.length}" label="masters answer" state=${silent.length ? "bad" : ""} />` : null}<${Tile} value="${live}/${nodes.length + silentNodes}" label=${uncounted.length ? `nodes live; how many ${list(uncounted)} has is not known` : "nodes live"} state=${silent.length || live < nodes.length ? "bad" : ""} /><${Tile} value=${whole(sum(nodes, "queued"))} label="subtasks waiting" /><${Tile} value="${sum(liveNodes, "idle_pods")}/${sum(liveNodes, "pods")}" label="pods idle" /><${Tile} value=${whole(told.reduce((n, { status }) => n + (status.open_queries ?? 0), 0))} label="open questions" /><${Tile} value=${nodes.reduce((n, node) => n + (node.faults?.length ?? 0), 0)} label="open faults of sensors" /><//>
    ${several
      ? html`<${Domains} iads=${iads} />${rest ? html`<p>${rest}</p>` : null}<h2>Nodes</h2>`
      : first
        ? html`${first.status.unreachable_iads?.length ? html`<${Note} kind="bad"><p><b>Not reached:</b> ${list(first.status.unreachable_iads)}.</p><//>` : null}
          <p>This is the fleet of <b>${first.iad}</b>: policy ${first.status.policy}, release ${released(first.status)}. ${rest}</p>`
        : html`<${Note} kind="bad"><p><b>${silent[0].iad} does not answer:</b> ${silent[0].problem}</p><//>`}
    ${several || first ? html`<${Nodes} told=${told} silent=${silent.map((each) => each.iad)} several=${several} />` : null}
    ${told.map(({ iad, status }) => html`<details key=${iad}><summary>Counters of ${several ? `${iad}’s` : "the"} master</summary><${Table} caption=${several ? `Counters of ${iad}` : "Counters"} hidden head=${["Counter", { n: "Count" }]} rows=${Object.entries(status.counters ?? {}).map(([name, n]) => ({ key: name, cells: [name.replaceAll("_", " "), whole(n)] }))} /></details>`)}`;
}

export default function Fleet() {
  useLive(5000);
  return html`<${Heading} text="Fleet"><p class="lead">Nodes, sensors, queues and releases, those with problems first.</p><//>
    <${ForOperators}><${Asked} /><//>`;
}

function Asked() {
  if (!session.operator) return html`<${NoOperator} />`;
  return html`<${Polled} />`;
}

function Polled() {
  const found = useGet("fleet/all", 5000);
  return html`<${Answered} of=${found}>${(answer) => html`<${Status} iads=${answer.iads} />`}<//>`;
}
