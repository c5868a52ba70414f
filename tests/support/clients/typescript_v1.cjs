// The TypeScript SDK 1.x (@modelcontextprotocol/sdk), which knows the handshake era only.

"use strict";

const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const {
  CreateMessageRequestSchema,
  ResourceUpdatedNotificationSchema,
} = require("@modelcontextprotocol/sdk/types.js");
const { play, readPlan, tell, updates, writer } = require("./steps.cjs");

async function main() {
  const plan = readPlan();
  const { asked, write } = writer(plan);
  const client = new Client(
    { name: "typescript-v1", version: "1" },
    { capabilities: plan.replies ? { sampling: {} } : {} },
  );
  if (plan.replies) client.setRequestHandler(CreateMessageRequestSchema, write);
  const { note, until } = updates();
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, note);
  const transport = plan.url
    ? new StreamableHTTPClientTransport(new URL(plan.url))
    : new StdioClientTransport({ command: plan.command[0], args: plan.command.slice(1), env: process.env });
  await client.connect(transport);
  const steps = await play(client, plan.steps, {
    call: (params, options) => client.callTool(params, undefined, options),
    watch: (uri) => client.subscribeResource({ uri }),
    until,
  });
  const instructions = client.getInstructions();
  await client.close();
  tell({ steps, asked, instructions });
}

main();
