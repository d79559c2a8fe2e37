/** HTTP with patience: what may succeed later is tried again, what was refused is not. */

import type { Bytes } from "./bytes.ts";
import { AgentStateError, isTransient, NetworkError, toError } from "./errors.ts";

const TRIES = 6;
const FIRST_WAIT_MS = 250;
const WAIT_MAX_MS = 8_000;
/** A service that asks for more than this gets an error thrown at its caller, who can wait better. */
const RETRY_AFTER_MAX_MS = 60_000;
const TIMEOUT_MS = 30_000;
/** The slowest line that a large request may take: 10 bytes a millisecond. */
const BYTES_PER_MS = 10;

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
  /** How long the service may be silent. Default 30 seconds; a large request gets the time that a slow line needs. */
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
      const headers = await this.#headers(body !== undefined);
      const { response, bytes } = await this.#fetch(this.#baseUrl + path, { ...init, headers }, signal);
      return readJson<T>(response, new TextDecoder().decode(bytes));
    };
    return await this.#persist(attempt, once, signal);
  }

  /**
   * Asks for a long answer, and yields its text as it comes. That it is a 2xx has been waited for with patience; an
   * answer that breaks off is a {@link NetworkError}, to go on from by asking again.
   */
  async *stream(path: string, signal?: AbortSignal): AsyncGenerator<string> {
    const { response, alive } = await this.#persist(
      async () => {
        const opened = await this.#open(this.#baseUrl + path, { headers: await this.#headers() }, signal);
        if (opened.response.ok) return opened;
        return readJson<never>(opened.response, await opened.response.text());
      },
      false,
      signal,
    );
    const decoder = new TextDecoder();
    try {
      if (response.body === null) return;
      for (const reader = response.body.getReader();;) {
        const { done, value } = await reader.read();
        alive();
        if (done) break;
        yield decoder.decode(value, { stream: true });
      }
    } catch (cause) {
      signal?.throwIfAborted();
      throw new NetworkError("network_error", "network_error: the answer broke off", { cause });
    } finally {
      alive(true);
    }
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

  async #headers(hasBody = false): Promise<Record<string, string>> {
    const { token, deviceId } = this.#options;
    return {
      authorization: `Bearer ${typeof token === "string" ? token : await token()}`,
      ...(hasBody ? { "content-type": "application/json" } : {}),
      ...(deviceId === undefined ? {} : { "x-device-id": deviceId }),
    };
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
    const { response, alive, silent } = await this.#open(url, init, signal);
    try {
      return { response, bytes: new Uint8Array(await response.arrayBuffer()) };
    } catch (cause) {
      throw noAnswer(url, silent(), cause);
    } finally {
      alive(true);
    }
  }

  /** One try: the answer's head. It is broken off when nothing comes for too long; `alive` says that something came. */
  async #open(url: string, init: RequestInit, signal?: AbortSignal) {
    const size = typeof init.body === "string" ? init.body.length : 0;
    const patience = (this.#options.timeoutMs ?? TIMEOUT_MS) + size / BYTES_PER_MS;
    const silence = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const alive = (ended = false) => {
      clearTimeout(timer);
      if (!ended) timer = setTimeout(() => silence.abort(), patience);
    };
    alive();
    const either = signal === undefined ? silence.signal : AbortSignal.any([signal, silence.signal]);
    const silent = () => silence.signal.aborted;
    try {
      const send = this.#options.fetch ?? ((...args) => globalThis.fetch(...args));
      return { response: await send(url, { ...init, signal: either }), alive, silent };
    } catch (cause) {
      alive(true);
      throw noAnswer(url, silent(), cause);
    }
  }
}

function noAnswer(url: string, silent: boolean, cause: unknown): NetworkError {
  const code = silent ? "timeout" : "network_error";
  return new NetworkError(code, `${code}: ${new URL(url).host} did not answer`, { cause });
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
