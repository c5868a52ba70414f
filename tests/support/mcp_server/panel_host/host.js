// How does a host of MCP Apps treat the panel? The official bridge, with notes of all that it hears.
import { AppBridge, McpUiResourceTeardownResultSchema, PostMessageTransport } from "./bridge.js";

window.heard = { sizes: [], calls: [], errors: [] };
let bridge = null;
let frame = null;

/** Put the panel into a sandboxed frame; `answers` are what the server gives to tools/call, one after another. */
window.openPanel = async ({ context, capabilities, answers }) => {
  frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  document.body.replaceChildren(frame);
  bridge = new AppBridge(null, { name: "host", version: "1.0.0" }, capabilities, { hostContext: context });
  bridge.onerror = (error) => heard.errors.push(String(error));
  bridge.onsizechange = (size) => {
    heard.sizes.push(size);
    frame.style.height = `${size.height}px`;
  };
  bridge.oncalltool = async (call) => {
    heard.calls.push(call);
    const answer = answers.shift();
    if (answer === "hold") return new Promise((resolve) => (window.release = resolve));
    if (!answer) throw new Error("the server is gone");
    return answer;
  };
  const initialized = new Promise((resolve) => (bridge.oninitialized = resolve));
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.src = "panel.html";
  await initialized;
  window.bridge = bridge;
  return { app: bridge.getAppVersion(), capabilities: bridge.getAppCapabilities() };
};

/** Resolve when the panel has dealt with all that was sent before: messages keep their order. */
window.settle = () => bridge.request({ method: "ping" });

/** Ask for anything; any object will do as an answer. */
window.ask = (method) => bridge.request({ method, params: {} }, McpUiResourceTeardownResultSchema);

/** Send what no honest host sends. */
window.sendRaw = (message) => frame.contentWindow.postMessage(message, "*");
