/** HTTP with patience: what may succeed later is tried again, what was refused is not. */

import type { Bytes } from "./bytes.ts";
import { AgentStateError, isTransient, NetworkError, toError } from "./errors.ts";

const TRIES = 6;
const FIRST_WAIT_MS = 250;
const WAIT_MAX_MS = 8_000;
/** A service that asks for more than this gets an error thrown at its caller, who can wait better. */
const RETRY_AFTER_MAX_MS = 60_000;
const TIMEOUT_MS = 30_000;

/** Where the service is, and how to talk to it. */
export interface ServiceOptions {
  /** The address of the function, for example `https://…/functions/v1/v2-agent-state`. */
  baseUrl: string;
  /** A `sov_proj_…` or `sov_live_…` token, or a session; a function is asked before each request. */
  token: string | (() => string | Promise<string>);
  /** Tells devices of one account apart in `GET /metadata`. */
  deviceId?: string;
  /** Tries for one request, the first included. Default 6. */
  tries?: number;
  /** How long one try may take. Default 30 seconds. */
  timeoutMs?: number;
  /** In place of the global `fetch`. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** In place of a timer; for tests. */
  sleep?: (ms: number) => Promise<void>;
}

/** One request. */
export interface RequestOptions {
  body?: unknown;
  signal?: AbortSignal | undefined;
  /** The request is not safe to repeat: it is tried again only when it was turned away at the door (429). */
  once?: boolean;
}

/** Sends requests to one service. */
export class Transport {
  readonly #baseUrl: string;
  readonly #options: ServiceOptions;

  constructor(options: ServiceOptions) {
    this.#baseUrl = new URL(options.baseUrl).href.replace(/\/+$/, "");
    this.#options = options;
  }

  /** Sends JSON and returns the JSON of a 2xx. Errors: see `errors.ts`; `AbortError` when `signal` says so. */
  async request<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    const { body, signal, once = false } = options;
    const init: RequestInit = { method };
    if (body !== undefined) init.body = JSON.stringify(body);
    const attempt = async () => {
      const token = this.#options.token;
      const headers: Record<string, string> = {
        authorization: `Bearer ${typeof token === "string" ? token : await token()}`,
      };
      if (body !== undefined) headers["content-type"] = "application/json";
      if (this.#options.deviceId !== undefined) headers["x-device-id"] = this.#options.deviceId;
      const { response, bytes } = await this.#fetch(this.#baseUrl + path, { ...init, headers }, signal);
      return readJson<T>(response, new TextDecoder().decode(bytes));
    };
    return await this.#persist(attempt, once, signal);
  }

  /** Downloads a blob. It is public: no token goes along. */
  async download(url: string, signal?: AbortSignal): Promise<Bytes> {
    return await this.#persist(
      async () => {
        const { response, bytes } = await this.#fetch(url, {}, signal);
        if (!response.ok) throw toError("ciphertext_unavailable", failureOf(response));
        return bytes;
      },
      false,
      signal,
    );
  }

  async #persist<T>(attempt: () => Promise<T>, once: boolean, signal?: AbortSignal): Promise<T> {
    for (let tries = 1;; tries++) {
      try {
        return await attempt();
      } catch (error) {
        signal?.throwIfAborted();
        const wait = error instanceof AgentStateError ? waitFor(error, tries) : undefined;
        const repeatable = isTransient(error) && (!once || (error as AgentStateError).status === 429);
        if (!repeatable || wait === undefined || tries >= (this.#options.tries ?? TRIES)) throw error;
        await (this.#options.sleep ?? sleep)(wait);
        signal?.throwIfAborted();
      }
    }
  }

  /** One try: the answer and its body, or a {@link NetworkError}. */
  async #fetch(url: string, init: RequestInit, signal?: AbortSignal) {
    const timeout = AbortSignal.timeout(this.#options.timeoutMs ?? TIMEOUT_MS);
    const either = signal === undefined ? timeout : AbortSignal.any([signal, timeout]);
    try {
      const send = this.#options.fetch ?? ((...args) => globalThis.fetch(...args));
      const response = await send(url, { ...init, signal: either });
      return { response, bytes: new Uint8Array(await response.arrayBuffer()) };
    } catch (cause) {
      const code = timeout.aborted ? "timeout" : "network_error";
      throw new NetworkError(code, `${code}: ${new URL(url).host} did not answer`, { cause });
    }
  }
}

/** How long to wait before the next try: a random part of a doubling time, and at least what was asked for. */
function waitFor(error: AgentStateError, tries: number): number | undefined {
  const asked = error.retryAfterMs ?? 0;
  if (asked > RETRY_AFTER_MAX_MS) return undefined;
  const limit = Math.min(FIRST_WAIT_MS * 2 ** (tries - 1), WAIT_MAX_MS);
  return asked + limit / 2 + Math.random() * limit / 2;
}

function readJson<T>(response: Response, text: string): T {
  const value = parseJson(text);
  if (response.ok && value !== undefined) return value as T;
  if (response.ok) throw new NetworkError("invalid_answer", "invalid_answer: the answer is not JSON");
  const { error, request_id, ...details } = (value ?? {}) as Record<string, unknown>;
  const requestId = typeof request_id === "string" ? { requestId: request_id } : {};
  throw toError(typeof error === "string" ? error : `http_${response.status}`, {
    ...failureOf(response),
    ...requestId,
    details,
  });
}

function failureOf(response: Response): { status: number; retryAfterMs?: number } {
  const header = response.headers.get("retry-after");
  if (header === null) return { status: response.status };
  const seconds = Number(header);
  const ms = Number.isFinite(seconds) ? seconds * 1_000 : Date.parse(header) - Date.now();
  return Number.isFinite(ms)
    ? { status: response.status, retryAfterMs: Math.max(ms, 0) }
    : { status: response.status };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
