/** Requests of the doctor: they end in an answer that can be judged, whatever happens. */

const TIMEOUT_MS = 15_000;

/** An answer, read whole; status 0 and the reason when there was none. */
export interface Seen {
  status: number;
  headers: Headers;
  text: string;
  /** The parsed body; undefined when it is not JSON. */
  // deno-lint-ignore no-explicit-any
  body: any;
  ms: number;
  reason: string;
  /** The answerer's clock minus ours, in seconds; undefined when it did not say. */
  skew: number | undefined;
}

/** Asks, and never throws. */
export async function ask(url: string, init: RequestInit = {}): Promise<Seen> {
  const startedAt = Date.now();
  try {
    const response = await fetch(url, {
      ...init,
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const text = await response.text();
    const endedAt = Date.now();
    const date = Date.parse(response.headers.get("date") ?? "");
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: parse(text),
      ms: endedAt - startedAt,
      reason: "",
      // A Date header is cut to whole seconds.
      skew: Number.isNaN(date) ? undefined : Math.round((date + 500 - (startedAt + endedAt) / 2) / 1000),
    };
  } catch (error) {
    return { ...NOTHING, reason: explain(error), ms: Date.now() - startedAt };
  }
}

const NOTHING: Seen = {
  status: 0,
  headers: new Headers(),
  text: "",
  body: undefined,
  ms: 0,
  reason: "",
  skew: undefined,
};

/** What was answered, short enough for a line. */
export function describe({ status, text, reason }: Seen): string {
  return status === 0 ? reason : `${status} ${text.replaceAll(/\s+/g, " ").trim().slice(0, 120)}`.trim();
}

/** An error and what caused it: of a failed fetch only the cause says why. */
function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${explain(error.cause)}`;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
