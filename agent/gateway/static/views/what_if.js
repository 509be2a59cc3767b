// What if the load doubles? The last `fleet plan --json`.

import { html, useMemo, useState } from "../vendor/htm-preact.js";
import { Chart } from "../chart.js";
import { Answered, Bar, ForOperators, Heading, Note, Table, useGet } from "../parts.js";
import { ms, number, percent, whole } from "../words.js";

const NAMES = { edfq: "EDFQ", fifo: "FIFO", sanderling: "sanderling", spr: "SPR", tedfq: "T-EDFQ" };
const name = (policy) => NAMES[policy] ?? policy;

/** A curve's value at a rate, between its points; null beyond them. */
export function at(curve, rate) {
  const { rates_per_s: x, ratios: y } = curve;
  const i = x.findIndex((r) => r >= rate);
  if (i < 0 || (i === 0 && rate < x[0] / 2)) return i < 0 ? null : y[0];
  if (i === 0) return y[0];
  return y[i - 1] + ((y[i] - y[i - 1]) * (rate - x[i - 1])) / (x[i] - x[i - 1]);
}

function Curves({ plan }) {
  const curves = plan.curves;
  const rates = curves[0].rates_per_s;
  const most = rates.at(-1);
  const best = Math.max(...plan.policies.map((p) => p.highest.rate_per_s));
  const [rate, set] = useState(Math.min(most, Math.round(best * 9.5) / 10));
  const shown = (v) => (Number.isFinite(v) ? Math.min(v, 3) : null);
  const data = useMemo(() => [rates, ...curves.map((c) => c.ratios.map(shown))], [plan]);
  const words = curves.map((c) => {
    const ratio = at(c, rate);
    return ratio === null ? `${name(c.policy)}: not computed` : ratio < 1.005 ? `${name(c.policy)} keeps every objective, the tightest class at ${percent(ratio)} of it` : `${name(c.policy)} misses: a class takes ${number(ratio, 2)} times its objective`;
  });
  const label = `Latency over objective of the worst class, by questions a second; above 1 an objective is missed. ${plan.policies.map((p) => `${name(p.policy)} reaches 1 at ${number(p.highest.rate_per_s)}/s`).join(", ")}.`;
  const read = (i) => `${number(rates[i])}/s: ${curves.map((c) => `${name(c.policy)} ${number(c.ratios[i], 2)}`).join(", ")}`;
  return html`<section class="card"><h2>At another load</h2>
    <label class="slider">Questions a second: <b>${number(rate)}</b> <input type="range" min=${rates[0]} max=${most} step=${most / 200} value=${rate} aria-valuetext="${number(rate)} questions a second" onInput=${(e) => set(e.target.valueAsNumber)} /></label>
    <div role="status"><ul class="plain">${words.map((text) => html`<li>${text}.</li>`)}</ul></div>
    <div class="beside"><div>
      <${Chart} data=${data} series=${curves.map((c) => name(c.policy))} time=${false} xLabel="questions a second" limits=${[1]} label=${label} read=${read} />
      <p class="legend">${curves.map((c, i) => html`<span class="key line ink-${i + 1}"></span> ${name(c.policy)} `)}</p></div>
      <details open=${matchMedia("(min-width: 64rem)").matches}><summary>The same as a table</summary><${Table} hidden caption="Latency over objective, by rate" head=${["Rate", ...curves.map((c) => ({ n: name(c.policy) }))]}
        rows=${rates.map((r, i) => ({ key: r, cells: [`${number(r)}/s`, ...curves.map((c) => `${number(c.ratios[i], 2)}${c.ratios[i] >= 1.005 ? " missed" : ""}`)] }))} /></details>
    </div></section>`;
}

function Plan({ plan }) {
  const best = Math.max(...plan.policies.map((p) => p.highest.rate_per_s)) * 1.1;
  return html`
    <h2>The highest load that keeps every objective</h2>
    <${Table} caption="Highest rate by policy" hidden head=${["Order of the queues", "", { n: "Questions a second" }, "Class that binds", "Busiest node", { n: "Busy" }]}
      rows=${plan.policies.map(({ policy, highest: h }) => ({ key: policy, cells: [name(policy), html`<${Bar} value=${h.rate_per_s} most=${best} limit=${NaN} />`, `${number(h.rate_per_s)}${h.half_width === null ? "" : ` ± ${number(h.half_width)}`}`, h.binding, h.busiest, percent(h.utilisation)] }))} />
    ${plan.curves?.length ? html`<${Curves} plan=${plan} />` : null}
    ${plan.plans?.length ? html`<h2>Pods for ${number(plan.target_per_s)} questions a second</h2>
      <${Table} caption="Pods for the target" hidden head=${["Order of the queues", { text: "Kept" }, { n: "Pods" }, { n: "More than now" }, { n: "Highest rate then" }]}
        rows=${plan.plans.map((p) => ({ key: p.policy, mark: p.kept ? "" : "bad", cells: [name(p.policy), p.kept ? "yes" : `no: ${p.obstacle}`, whole(p.total), p.more > 0 ? `+${p.more}` : whole(p.more), `${number(p.highest.rate_per_s)}/s`] }))} />` : null}
    <h2>Kinds of questions</h2>
    <${Table} caption="Classes" hidden head=${["Class", { n: "Share" }, { n: "Domains" }, { n: "Nodes of each" }, { text: "Objective" }, { n: "On an idle fleet" }]}
      rows=${plan.classes.map((c) => ({ key: c.name, mark: c.infeasible ? "bad" : "", cells: [c.name, percent(c.share), c.iad ?? whole(c.iads), c.nodes ?? "all", `p${c.percentile} ≤ ${ms(c.slo_ms)}`, ms(c.idle_ms)] }))} />
    ${plan.cautions?.length ? html`<${Note} kind="warm"><p><b>Be careful:</b></p><ul>${plan.cautions.map((c) => html`<li>${c}</li>`)}</ul><//>` : null}
    <p class="quiet">${plan.fleet}. ${(plan.assumptions ?? []).join(" ")} ${whole(plan.queries)} questions a run, ${plan.seeds.length} seeds.</p>`;
}

export default function WhatIf() {
  return html`<${Heading} text="What if"><p class="lead">What if the load doubles, or there were more pods?</p><//>
    <${ForOperators}><${Asked} /><//>`;
}

function Asked() {
  const found = useGet("plan");
  const none = found[1]?.status === 404;
  return html`${none ? html`<${Note}><p><b>No plan yet.</b> On the operator’s machine, <code>fleet plan master.toml --records RECORDS --json > plan.json</code> computes one from a master’s configuration and records; <code>[console] plan</code> in the gateway’s configuration names that file.</p><//>` : html`<${Answered} of=${found}>${(plan) => html`<${Plan} plan=${plan} />`}<//>`}`;
}
