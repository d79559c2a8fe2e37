#!/usr/bin/env node
/** Runs the MCP server on standard input and output. AGENT_STATE_HOME, _URL, _TOKEN and _AGENT say where and whose. */

import process from "node:process";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { openHome } from "../../command/home.ts";
import { createMcpServer } from "./server.ts";

const agent = process.env.AGENT_STATE_AGENT || "mcp";
await createMcpServer(await openHome({}), agent).connect(new StdioServerTransport());
