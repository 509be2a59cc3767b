// Pieces that several views are made of.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { STATES } from "./comfort.js";
import { get, may } from "./api.js";
import { age, isTime, sentence, when } from "./words.js";
import { now } from "./live.js";

// Shapes differ, so that states are told apart without colours, too.
const SHAPES = {
  well: "M3 8.5 6.5 12 13 4.5",
  out: "M8 2.5 14.5 13.5 1.5 13.5ZM8 6.5V10M8 11.6V12",
  stale: "M8 1.8a6.2 6.2 0 1 1-.01 0M8 4.5V8.2L10.6 9.8",
  bad: "M3.5 3.5 12.5 12.5M12.5 3.5 3.5 12.5",
  suspect: "M5.2 5.6a2.8 2.8 0 1 1 4 2.6c-.9.5-1.2 1-1.2 1.9M8 12.6V13",
  missing: "M2.5 8H4.5M7 8H9M11.5 8H13.5",
  raised: "M8 2v7M8 12.4V13",
};

export const Icon = ({ kind }) => html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d=${SHAPES[kind] ?? SHAPES.missing} /></svg>`;

/** A state in a word and a shape; `why` beneath. */
export const Mark = ({ state, word, why }) => html`<span class="mark ${state}"><${Icon} kind=${state} /><span><b>${word ?? STATES[state]?.word ?? state}</b>${why ? html`<small>${why}</small>` : null}</span></span>`;

/** How old something is, with the time itself for those who point at it. */
export const Age = ({ ms }) => (isTime(ms) ? html`<time title=${when(ms)} datetime=${new Date(ms).toISOString()}>${age(now() - ms)}</time>` : html`<span>–</span>`);

/** A line of what a channel did lately; the values stand in text beside it. */
export function Spark({ values, width = 88, height = 24 }) {
  const known = (values ?? []).filter((v) => v !== null);
  if (known.length < 2) return html`<svg class="spark" width=${width} height=${height} aria-hidden="true" />`;
  const low = Math.min(...known);
  const reach = Math.max(Math.max(...known) - low, 0.2);
  const x = (i) => ((i / (values.length - 1)) * (width - 4) + 2).toFixed(1);
  const y = (v) => (height - 3 - ((v - low) / reach) * (height - 6)).toFixed(1);
  let path = "";
  let pen = "M";
  values.forEach((v, i) => {
    if (v === null) pen = "M";
    else {
      path += `${pen}${x(i)} ${y(v)}`;
      pen = "L";
    }
  });
  const last = values.at(-1);
  return html`<svg class="spark" width=${width} height=${height} viewBox="0 0 ${width} ${height}" aria-hidden="true"><path d=${path} />${last === null ? null : html`<circle cx=${x(values.length - 1)} cy=${y(last)} r="1.8" />`}</svg>`;
}

const MAX_FIGURES = 6;
const wording = (head) => head.n ?? head.text ?? head;

/** A table. A head is a word; {n: word} for numbers, to the right; {text: word} for sentences, which
 * wrap. Nothing scrolls sideways on a phone: there a row is a paragraph with the heads beside its
 * values, but in a table of a few figures, which fits. Roles are said, since that takes away the
 * table's own. */
export function Table({ caption, head, rows, hidden = false, empty = "Nothing to show." }) {
  const figures = head.length <= MAX_FIGURES && head.slice(1).every((h) => h.n);
  const cell = (content, i) => (i === 0 ? html`<th scope="row" role="rowheader" class=${head[0].text ? "text" : ""}>${content}</th>` : html`<td role="cell" data-head=${wording(head[i])} class=${head[i].n ? "n" : head[i].text ? "text" : ""}>${figures ? content : html`<span>${content}</span>`}</td>`);
  return html`
  <div class="wide ${figures ? "figures" : "stacked"}" tabindex="0" role="region" aria-label=${caption}>
    <table role="table">
      <caption class=${hidden ? "unseen" : ""}>${caption}</caption>
      <thead role="rowgroup"><tr role="row">${head.map((h) => html`<th scope="col" role="columnheader" class=${h.n ? "n" : ""}>${wording(h)}</th>`)}</tr></thead>
      <tbody role="rowgroup">${
        rows.length
          ? rows.map((row) => html`<tr role="row" class=${row.mark ?? ""} key=${row.key}>${row.cells.map(cell)}</tr>`)
          : html`<tr role="row"><td role="cell" colspan=${head.length} class="quiet"><p class="none">${empty}</p></td></tr>`
      }</tbody>
    </table>
  </div>`;
}

/** A room by its name, its path beneath, as a link. */
export const Place = ({ area, name }) => html`<a class="place" href="#/room/${area}"><b>${name || area}</b>${name ? html`<small>${area}</small>` : null}</a>`;

export const Tile = ({ value, label, state }) => html`<div class="tile ${state ?? ""}"><dd>${value}</dd><dt>${label}</dt></div>`;
export const Tiles = ({ children }) => html`<dl class="tiles">${children}</dl>`;

export const Note = ({ kind = "", children }) => html`<div class="note ${kind}">${children}</div>`;

/** What a request failed with, in words, and what to do about it. */
export function Failed({ problem, again }) {
  const words =
    problem.status === 403
      ? "Your token does not allow this view. The operator makes one that does: fleet gateway token create NAME --role operator"
      : sentence(problem.message);
  return html`<${Note} kind="bad"><p><b>${problem.status === 403 ? "For operators" : "This did not work"}.</b> ${words}${problem.retry ? ` Try again in ${problem.retry} s.` : ""}</p>${again && problem.status !== 403 ? html`<button type="button" onClick=${again}>Try again</button>` : null}<//>`;
}

/** Ask for `path` at once and every `every_ms`; [answer, problem, again]. */
export function useGet(path, every_ms = 0) {
  const [found, set] = useState({ path });
  const [turn, again] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    const ask = () =>
      get(path, stop.signal).then(
        (answer) => set({ path, answer }),
        (problem) => problem.name === "AbortError" || set((before) => ({ ...before, path, problem, answer: before.path === path ? before.answer : undefined })),
      );
    ask();
    const timer = every_ms && setInterval(() => document.hidden || ask(), every_ms);
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  }, [path, every_ms, turn]);
  const current = found.path === path ? found : {};
  return [current.answer, current.problem, () => again((n) => n + 1)];
}

/** A view that is nothing without its answer. */
export function Answered({ of: [answer, problem, again], children }) {
  if (answer !== undefined) return html`${problem ? html`<${Failed} problem=${problem} again=${again} />` : null}${children(answer)}`;
  if (problem) return html`<${Failed} problem=${problem} again=${again} />`;
  return html`<p class="quiet" role="status">Asking …</p>`;
}

export const ForOperators = ({ children }) =>
  may("operator")
    ? children
    : html`<${Failed} problem=${{ status: 403 }} />`;

export const NoOperator = () => html`<${Note}><p><b>The gateway does not know the operator’s address.</b> Its configuration names it: <code>[operator] address</code></p><//>`;

/** The heading of a view; it takes the focus when the view is opened, so that it is read out. */
export function Heading({ text, children }) {
  const heading = useRef();
  useEffect(() => {
    document.title = `${text} · Sanderling`;
    if (Heading.moved) heading.current.focus({ preventScroll: true });
    Heading.moved = true;
  }, [text]);
  return html`<div class="heading"><h1 tabindex="-1" ref=${heading}>${text}</h1>${children}</div>`;
}

/** A time against a limit, as a bar with a line at the limit; the numbers stand beside it. */
export function Bar({ value, limit, most, parts }) {
  const share = (v) => `${Math.max(0, Math.min(100, (v / most) * 100)).toFixed(1)}%`;
  const pieces = parts ?? [{ kind: value > limit ? "late" : "kept", value }];
  let from = 0;
  return html`<svg class="bar" aria-hidden="true" width="100%" height="14">
    ${pieces.map((p) => {
      const x = share(from);
      from += p.value;
      return html`<rect class=${p.kind} x=${x} width=${share(p.value)} y="2" height="10" rx="2" />`;
    })}
    ${Number.isFinite(limit) ? html`<line x1=${share(limit)} x2=${share(limit)} y1="0" y2="14" />` : null}
  </svg>`;
}
