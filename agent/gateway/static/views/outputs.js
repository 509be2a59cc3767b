// Do MQTT, line protocol, ntfy and e-mail deliver, and what waits?

import { html } from "../vendor/htm-preact.js";
import { Answered, Heading, Mark, Note, Table, useGet } from "../parts.js";
import { count, whole } from "../words.js";

const KINDS = { mqtt: "MQTT", line_protocol: "Line protocol", ntfy: "ntfy", email: "E-mail", prometheus: "Prometheus" };
const STATES = { up: ["well", "Delivers"], starting: ["stale", "Starting"], down: ["bad", "Does not deliver"], stopped: ["missing", "Stopped"] };
const shape = (state) => STATES[state]?.[0] ?? "missing";

export default function Outputs() {
  const found = useGet("outputs", 3000);
  return html`<${Heading} text="Outputs"><p class="lead">Where readings and alerts go besides this page.</p><//>
    <${Answered} of=${found}>${(answer) => {
      const outputs = Array.isArray(answer) ? answer : answer.outputs;
      if (!outputs.length) return html`<${Note}><p><b>No output is set up.</b> Home Assistant, MQTT, InfluxDB, ntfy and e-mail are sections of <code>gateway.toml</code>; with <code>fleet up</code>, of <code>outputs.toml</code> beside it. The gateway of the demo has none. See <code>docs/use/outputs.md</code>.</p><//>`;
      const ill = outputs.filter((o) => shape(o.state) === "bad");
      return html`<p role="status">${ill.length ? html`<b>${count(ill.length, "output")} of ${outputs.length} ${ill.length === 1 ? "does" : "do"} not deliver.</b>` : outputs.length === 1 ? "The one output delivers." : `All ${count(outputs.length, "output")} deliver.`}</p>
        <${Table} caption="Outputs" hidden head=${["Output", { text: "State" }, { n: "Waiting" }, { n: "Delivered" }, { n: "Failed" }]}
          rows=${outputs.map((o) => ({ key: `${o.kind} ${o.name}`, mark: shape(o.state) === "bad" ? "bad" : "", cells: [html`<b>${o.name}</b> <small>${KINDS[o.kind] ?? o.kind}</small>`, html`<${Mark} state=${shape(o.state)} word=${STATES[o.state]?.[1] ?? o.state} />${o.last_error ? html`<br /><small>${o.last_error}</small>` : null}`, whole(o.waiting), whole(o.delivered), whole(o.failed)] }))} />
        <p class="quiet">What waits is kept by the gateway and sent later, in order; readings that are replaced by newer ones are not.</p>`;
    }}<//>`;
}
