// The TypeScript client 2.x (@modelcontextprotocol/client), in the era that the plan names.

"use strict";

const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");
const { play, readPlan, tell, updates, writer } = require("./steps.cjs");

async function main() {
  const plan = readPlan();
  const { asked, write } = writer(plan);
  const client = new Client(
    { name: "typescript-v2", version: "2" },
    {
      capabilities: plan.replies ? { sampling: {} } : {},
      versionNegotiation: { mode: plan.era === "modern" ? "auto" : "legacy" },
    },
  );
  if (plan.replies) client.setRequestHandler("sampling/createMessage", async (request) => write(request));
  const { note, until } = updates();
  client.setNotificationHandler("notifications/resources/updated", note);
  const transport = plan.url
    ? new StreamableHTTPClientTransport(new URL(plan.url))
    : new StdioClientTransport({ command: plan.command[0], args: plan.command.slice(1), env: process.env });
  await client.connect(transport);
  const protocol = client.getNegotiatedProtocolVersion();
  const steps = await play(client, plan.steps, {
    call: (params, options) => client.callTool(params, options),
    watch: (uri) =>
      plan.era === "modern"
        ? client.listen({ resourceSubscriptions: [uri] })
        : client.subscribeResource({ uri }),
    until,
  });
  const instructions = client.getInstructions();
  await client.close();
  tell({ protocol, steps, asked, instructions });
}

main();
