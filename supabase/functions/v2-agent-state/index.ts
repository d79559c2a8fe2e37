/** The edge function's entry point. */

import { readSettings } from "../_shared/env.ts";
import { createPlatform } from "../_shared/platform/live.ts";
import { createApp } from "./app.ts";

const settings = readSettings(Deno.env.toObject());
const app = createApp(createPlatform(settings), settings);

Deno.serve(app.fetch);
