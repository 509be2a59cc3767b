// A shared worker: one connection to the gateway for all tabs of this browser.

import { apply, empty, follow } from "./feed.js";

const state = empty();
const tabs = new Set();

function tell(type, data) {
  apply(state, type, data);
  for (const tab of tabs) tab.postMessage({ type, data });
}

let following = false;
self.onconnect = ({ ports: [tab] }) => {
  tabs.add(tab);
  tab.onmessage = ({ data }) => {
    if (data === "bye") tabs.delete(tab);
  };
  tab.postMessage({ type: "whole", data: state });
  if (!following) follow(tell);
  following = true;
};
