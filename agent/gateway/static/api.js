// Requests to the gateway. A refusal becomes a Problem, whose message can be shown to people.

import { parsed } from "./words.js";

export class Problem extends Error {
  constructor(status, body, retry) {
    super(body.detail || body.title || `the gateway answered ${status}`);
    Object.assign(this, { status, reason: body.reason ?? "", title: body.title ?? "", retry, body });
  }
}

export const session = { role: "" };
const RANK = { viewer: 0, asker: 1, operator: 2 };
export const may = (role) => (RANK[session.role] ?? -1) >= RANK[role];

async function call(path, options = {}) {
  let response;
  try {
    response = await fetch(`/api/v1/${path}`, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { title: "The gateway does not answer", detail: "The gateway does not answer." });
  }
  const text = await response.text();
  let body = {};
  try {
    body = parsed(text);
  } catch {
    body = { title: response.statusText };
  }
  if (response.ok) return body;
  throw new Problem(response.status, body, Number(response.headers.get("Retry-After")) || null);
}

export const get = (path, signal) => call(path, { signal });

export function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return call(path, { method: "POST", body: JSON.stringify(body), headers, signal });
}

/** Who we are here; throws a Problem of status 401 where a link is needed. */
export async function login() {
  Object.assign(session, await get("session"));
  return session;
}

export const query = (parameters) =>
  Object.entries(parameters)
    .filter(([, value]) => value !== undefined && value !== null && value !== "")
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
    .join("&");

/** All areas, page by page. */
export async function areas(signal) {
  const found = [];
  for (let cursor = ""; cursor !== null; ) {
    const page = await get(`areas?${query({ limit: 1000, cursor })}`, signal);
    found.push(...page.areas);
    cursor = page.cursor ?? null;
  }
  return found;
}
