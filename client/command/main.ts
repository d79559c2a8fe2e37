#!/usr/bin/env node
/** Runs the command: `deno task agent -- …` here, `agent-state …` where the package is installed. */

import process from "node:process";
import { runAgent } from "./agent.ts";

process.exitCode = await runAgent(process.argv.slice(2));
