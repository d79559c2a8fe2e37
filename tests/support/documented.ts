/** Holds answers against the reference: whoever answers something else than it says is found out. */

import assert from "node:assert/strict";
import { Ajv2020, type ValidateFunction } from "npm:ajv@8.20.0/dist/2020.js";
import type { Json } from "./openapi_schemas.ts";
import { type Documented, documentOf } from "./references.ts";

/** An answer, as far as the reference speaks of it. */
export interface Answered {
  status: number;
  /** The parsed body. */
  body: unknown;
  text: string;
  headers: Headers;
}

/** One operation of a document. */
export interface DescribedOperation {
  /** `GET /teams/{id}/grant`. */
  name: string;
  method: string;
  template: string;
  /** As the document has it. */
  operation: Json;
}

/** The formats that answers have, as strictly as we write them. */
const FORMATS = {
  "uuid": /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  "date-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
  "uri": (text: string) => URL.canParse(text),
  "email": true,
} as const;

/** What a function's document says, ready to be asked. */
export class Book {
  readonly document: Json;
  readonly operations: DescribedOperation[];
  /** Each `operation code` that was answered so far. */
  readonly seen = new Set<string>();
  readonly #ajv: Ajv2020;
  readonly #routePath: (url: string) => string;
  readonly #validators = new Map<string, ValidateFunction>();

  constructor(documented: Documented) {
    this.#routePath = documented.routePath;
    this.document = documentOf(documented);
    this.operations = Object.entries(this.document.paths as Record<string, Json>).flatMap((
      [template, methods],
    ) =>
      Object.entries(methods).map(([method, operation]) => ({
        name: `${method.toUpperCase()} ${template}`,
        method: method.toUpperCase(),
        template,
        operation: operation as Json,
      }))
    );
    this.#ajv = new Ajv2020({ strict: false, validateSchema: false, formats: FORMATS });
    this.#ajv.addSchema(close(this.document), "book");
  }

  /** The operation that a request is for; undefined where no route is. */
  find(method: string, path: string): DescribedOperation | undefined {
    const segments = this.#routePath(new URL(`http://service.test${path}`).href).split("/");
    const fitting = this.operations.filter((each) => each.method === method && fits(each.template, segments));
    // A path that is spelled out comes before one with parameters.
    return fitting.sort((a, b) => a.template.split("{").length - b.template.split("{").length)[0];
  }

  /** Throws when the answer has a status, a code, a header or a field that the operation's description has not. */
  check({ name, template, method, operation }: DescribedOperation, answer: Answered): void {
    const described = operation.responses[answer.status];
    const code = answer.status < 400 ? "" : codeOf(answer.body);
    const said = `${name} answered ${answer.status} ${answer.text.slice(0, 500)}`;
    assert.ok(described, `${said}: the reference has no such status`);
    this.seen.add(`${name} ${code === "" ? answer.status : familyOf(code)}`);
    const response = this.#resolve(described);
    for (const header of Object.keys(response.headers ?? {})) {
      assert.ok(answer.headers.has(header), `${said}: without the header ${header}`);
    }
    const [media, content] = Object.entries((response.content ?? {}) as Record<string, Json>)[0] ?? [];
    if (content === undefined) return assert.equal(answer.text, "", said);
    assert.equal(answer.headers.get("content-type")?.split(";")[0], media, said);
    const pointer = described.$ref?.slice(1) ??
      `/paths/${escape(template)}/${method.toLowerCase()}/responses/${answer.status}`;
    const validate = this.#validator(`book#${pointer}/content/${escape(media!)}/schema`);
    if (!validate(answer.body)) {
      const reasons = validate.errors!.map(({ instancePath, message, params }) =>
        `${instancePath || "/"} ${message} ${JSON.stringify(params)}`
      );
      assert.fail(`${said}\nThe reference does not have it so: ${reasons.join("; ")}`);
    }
  }

  /** Each `operation code` and `operation status` that can be answered. */
  listAnswers(): string[] {
    return this.operations.flatMap(({ name, operation }) =>
      Object.entries(operation.responses as Record<string, Json>).flatMap(([status, response]) =>
        Number(status) < 400
          ? [`${name} ${status}`]
          : codesOf(this.#resolve(response)).map((code) => `${name} ${code}`)
      )
    );
  }

  #resolve(response: Json): Json {
    if (response.$ref === undefined) return response;
    return this.document.components.responses[response.$ref.split("/").at(-1)];
  }

  #validator(reference: string): ValidateFunction {
    const known = this.#validators.get(reference) ?? this.#ajv.compile({ $ref: reference });
    this.#validators.set(reference, known);
    return known;
  }
}

/** The code of a refusal, in our envelope or at the beginning of another's `detail`. */
export function codeOf(body: unknown): string {
  const { error, detail } = (body ?? {}) as Json;
  return String(error ?? /^[a-z_]+(?::[^ :]+)?(?=: )/.exec(String(detail))?.[0]);
}

/** The codes that a response of the document lists; the field of a family is left out. */
function codesOf(response: Json): string[] {
  return Array.from(
    (response.description as string).matchAll(/`([a-z_]+)(?::<field>)?`:/g),
    (match) => match[1]!,
  );
}

function familyOf(code: string): string {
  return code.split(":")[0]!;
}

function fits(template: string, segments: readonly string[]): boolean {
  const parts = template.split("/");
  return parts.length === segments.length &&
    parts.every((part, i) => part.startsWith("{") ? segments[i] !== "" : part === segments[i]);
}

/** In a JSON pointer that stands in a URI. */
function escape(part: string): string {
  return encodeURIComponent(part.replaceAll("~", "~0").replaceAll("/", "~1"));
}

/** For clients answers may get new fields; here none may come that is not described. */
function close<T>(schema: T): T {
  if (Array.isArray(schema)) return schema.map(close) as T;
  if (typeof schema !== "object" || schema === null) return schema;
  const closed = Object.fromEntries(Object.entries(schema).map(([key, inner]) => [key, close(inner)]));
  const isObject = closed.type === "object" && closed.properties !== undefined;
  return (isObject && closed.additionalProperties === undefined
    ? { ...closed, additionalProperties: false }
    : closed) as T;
}
