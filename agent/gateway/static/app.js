// The frame of the console: who is looking, which view, what is wrong with the way to the fleet.

import { html, render, useCallback, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { login, may, session } from "./api.js";
import { begin, live, nameOf, trouble, useAlarm, useLive } from "./live.js";
import { Note } from "./parts.js";
import { count, lasting, sentence, told, when } from "./words.js";
import Rooms from "./views/rooms.js";

const VIEWS = [
  { path: "rooms", name: "Rooms" },
  { path: "alerts", name: "Alerts" },
  { path: "ask", name: "Ask" },
  { path: "deadlines", name: "Deadlines" },
  { path: "fleet", name: "Fleet", role: "operator" },
  { path: "placement", name: "Placement", role: "operator" },
  { path: "what-if", name: "What if", role: "operator" },
  { path: "outputs", name: "Outputs" },
];
// The first view comes with the page; the others when they are opened.
const LOAD = {
  __proto__: null,
  room: () => import("./views/room.js"),
  alerts: () => import("./views/alerts.js"),
  ask: () => import("./views/ask.js"),
  deadlines: () => import("./views/deadlines.js"),
  fleet: () => import("./views/fleet.js"),
  placement: () => import("./views/placement.js"),
  "what-if": () => import("./views/what_if.js"),
  outputs: () => import("./views/outputs.js"),
};
const loaded = { __proto__: null, rooms: Rooms };

const decoded = (part) => {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
};

/** #/room/b1/f4/r413?last=24h → {view: "room", rest: "b1/f4/r413", asked: {last: "24h"}}. */
function route() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/").map(decoded);
  return { view: view || "rooms", rest: rest.join("/"), asked: Object.fromEntries(new URLSearchParams(search)) };
}

function useRoute() {
  const [at, set] = useState(route);
  useEffect(() => {
    const moved = () => {
      set(route());
      scrollTo(0, 0);
    };
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return at;
}

function View({ at, link }) {
  const [, again] = useState(0);
  const [failed, fail] = useState(null);
  const Found = loaded[at.view];
  // Asked for again when the gateway is back.
  useEffect(() => {
    if (Found || !LOAD[at.view]) return;
    LOAD[at.view]().then(
      (module) => {
        loaded[at.view] = module.default;
        again((n) => n + 1);
      },
      () => fail(at.view),
    );
  }, [at.view, link]);
  if (Found) return html`<${Found} key=${at.view + at.rest} ...${at} />`;
  if (failed === at.view) return html`<${Note} kind="bad"><p>This view could not be loaded. <button type="button" onClick=${() => location.reload()}>Load the page again</button></p><//>`;
  if (!LOAD[at.view]) return html`<${Note}><p>There is no such page. <a href="#/rooms">To the rooms</a></p><//>`;
  return html`<p class="quiet" role="status">Loading …</p>`;
}

function Navigation({ at }) {
  const [open, set] = useState(false);
  const button = useRef();
  useEffect(() => set(false), [at.view, at.rest]);
  const raised = live.raised?.length ?? 0;
  const current = at.view === "room" ? "rooms" : at.view;
  const key = (event) => {
    if (event.key !== "Escape" || !open) return;
    set(false);
    button.current.focus();
  };
  return html`
    <nav aria-label="Views" class=${open ? "open" : ""} onKeyDown=${key}>
      <button type="button" ref=${button} class="menu" aria-expanded=${open} aria-controls="views" onClick=${() => set(!open)}>
        ${VIEWS.find((v) => v.path === current)?.name ?? "Menu"}${raised && current !== "alerts" ? html` <span class="badge">${raised}<span class="unseen"> alerts raised</span></span>` : null}
      </button>
      <ul id="views">${VIEWS.map(
        (v) => html`<li key=${v.path} class=${v.role ? "operators" : ""}><a href="#/${v.path}" aria-current=${v.path === current ? "page" : null}>${v.name}${
          v.path === "alerts" && raised ? html` <span class="badge">${raised}<span class="unseen"> raised</span></span>` : null
        }${v.role && !may(v.role) ? html` <small>operator</small>` : null}</a></li>`,
      )}</ul>
    </nav>`;
}

/** The way to the fleet, when something is wrong with it. */
function Banner() {
  const state = useLive();
  const wrong = trouble(state);
  return html`<div class="banner" role="status">${
    wrong ? html`<p><b>${wrong.text}</b> Since ${when(wrong.since)}, ${lasting(wrong.since)} ago.</p>` : null
  }</div>`;
}

/** New alerts, for those who listen, one after the other. */
function Announcer() {
  const [text, say] = useState("");
  const hear = useCallback((entry) => say(entry.gap ? `Alerts lost: ${entry.gap.message}` : `Alert: ${told(entry.attributes, nameOf)}`), []);
  useAlarm(hear);
  return html`<p class="unseen" aria-live="polite" id="announced">${text}</p>`;
}

function Frame() {
  const at = useRoute();
  const { link } = useLive(60_000);
  useEffect(() => {
    if (link !== "away") return;
    // A stream says nothing of why it ended: perhaps nobody is signed in here any more.
    const check = () => login().catch((problem) => isUnknown(problem) && signIn(problem));
    check();
    const timer = setInterval(check, AGAIN_MS);
    return () => clearInterval(timer);
  }, [link]);
  const main = useRef();
  const skip = (event) => {
    event.preventDefault();
    main.current.focus();
  };
  return html`
    <a class="skip" href="#/${at.view}" onClick=${skip}>To the content</a>
    <header class="top">
      <a class="brand" href="#/rooms"><svg viewBox="0 0 32 20" aria-hidden="true"><path d="M2 13c6-10 14-11 19-8l8-2-5 5c1 7-7 11-13 9l-7 1zM12 17v3m5-4v4" /></svg>Sanderling</a>
      <${Navigation} at=${at} />
      <p class="who">${session.iad ? html`<span>${session.iads?.length > 1 ? count(session.iads.length, "domain") : session.iad}</span>` : null}${session.name ? html`<span>${session.name}, ${session.role}</span>` : null}</p>
    </header>
    <${Banner} />
    <main id="main" tabindex="-1" ref=${main}><${View} at=${at} link=${link} /></main>
    <${Announcer} />`;
}

const AGAIN_MS = 3000;
const isUnknown = (problem) => problem.status === 401 || problem.status === 403;
const signIn = (problem) => render(html`<${SignIn} problem=${problem} />`, document.getElementById("app"));

function SignIn({ problem }) {
  const away = !isUnknown(problem);
  const [shown, show] = useState(false);
  return html`
    <header class="top"><span class="brand">Sanderling</span></header>
    <main id="main" class="narrow">
      ${away
        ? html`<h1>The gateway does not answer</h1><p role="status">${sentence(problem.message)} This page asks again every few seconds.</p>`
        : html`<h1>This page needs a link</h1>
          <p>On the machine where the gateway runs, enter</p><p><code>fleet gateway link</code></p>
          <p>and open what it prints. A link works once, for ten minutes; afterwards this browser is known.</p>
          <form action="/login" method="get"><label>Or enter its code <span class="row"><input name="code" required autocomplete="one-time-code" spellcheck="false" type=${shown ? "text" : "password"} /><button type="button" aria-pressed=${shown} onClick=${() => show(!shown)}>Show</button><button class="main">Sign in</button></span></label></form>`}
    </main>`;
}

async function start() {
  const app = document.getElementById("app");
  const first = (component) => {
    if (!start.rendered) app.replaceChildren();
    start.rendered = true;
    render(component, app);
  };
  try {
    await login();
    begin();
    first(html`<${Frame} />`);
  } catch (problem) {
    first(html`<${SignIn} problem=${problem} />`);
    if (!isUnknown(problem)) setTimeout(start, AGAIN_MS);
  }
}
start();
