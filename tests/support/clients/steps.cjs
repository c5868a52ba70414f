// What does a client of the TypeScript SDKs do, step by step? Both versions share it.
//
// A plan comes on stdin as JSON: { url | command, era, replies, steps }; what was seen goes to stdout as JSON.

"use strict";

const { readFileSync } = require("node:fs");

exports.readPlan = () => JSON.parse(readFileSync(0, "utf8"));

// The client's own model: it writes the replies of the plan in their order, and notes what it was asked. Where the
// plan has null, the person says no.
exports.writer = (plan) => {
  const asked = [];
  const write = (request) => {
    asked.push(request.params);
    const text = plan.replies[Math.min(asked.length, plan.replies.length) - 1];
    if (text === null) throw new Error("the person said no");
    return { role: "assistant", model: "test-writer", stopReason: "endTurn", content: { type: "text", text } };
  };
  return { asked, write };
};

const listings = {
  tools: async (client) => (await client.listTools()).tools,
  resources: async (client) => (await client.listResources()).resources,
  templates: async (client) => (await client.listResourceTemplates()).resourceTemplates,
  prompts: async (client) => (await client.listPrompts()).prompts,
};

const actions = {
  list: (client, step) => listings[step.what](client),
  read: async (client, step) => (await client.readResource({ uri: step.uri })).contents,
  prompt: async (client, step) =>
    (await client.getPrompt({ name: step.name, arguments: step.arguments })).messages,
  complete: async (client, step) =>
    (await client.complete({ ref: step.ref, argument: step.argument })).completion.values,
};

async function callTool(call, step) {
  const aborter = new AbortController();
  const progress = [];
  const onprogress = (note) => {
    progress.push(note);
    if (!note.message) return; // a heartbeat: nothing was written yet
    if (step.abort) aborter.abort("the person pressed stop");
    if (step.end_server) process.kill(step.end_server, "SIGTERM");
  };
  try {
    const params = { name: step.name, arguments: step.arguments };
    return { ...(await call(params, { onprogress, signal: aborter.signal })), progress };
  } catch (error) {
    return { ...told(error), progress };
  }
}

// What the server said about resources that changed, and who waits for it.
exports.updates = () => {
  const waiting = new Map();
  const of = (uri) => {
    if (!waiting.has(uri)) waiting.set(uri, Promise.withResolvers());
    return waiting.get(uri);
  };
  return {
    note: (notification) => of(notification.params.uri).resolve(notification.params.uri),
    until: (uri) => {
      const late = new Promise((_, reject) => {
        AbortSignal.timeout(30_000).onabort = () => reject(new Error(`no update of ${uri} came`));
      });
      return Promise.race([of(uri).promise, late]);
    },
  };
};

const told = (error) => ({ failure: String(error), code: error.code });

// Goes through the steps; what the versions of the SDK do differently comes in as `own`: call, watch, until.
exports.play = async (client, steps, own) => {
  const doers = {
    ...actions,
    call: (_, step) => callTool(own.call, step),
    watch: async (_, step) => void (await own.watch(step.uri)),
    until_updated: (_, step) => own.until(step.uri),
  };
  const seen = [];
  for (const step of steps) {
    seen.push((await doers[step.do](client, step).catch(told)) ?? null);
  }
  return seen;
};

exports.tell = (seen) => process.stdout.write(`${JSON.stringify(seen)}\n`);
