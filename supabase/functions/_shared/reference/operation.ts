/**
 * How an operation is described. The reference is made from these descriptions, from the schemas that the handlers
 * parse with, and from what `app.ts` mounts; nothing of it is loaded when the service runs.
 */

import type { z } from "zod";
import type { ErrorCode } from "../errors.ts";
import type { SCHEMES } from "./credentials.ts";

/** One answer that is not a refusal. */
export interface Answer {
  /** What its body is; undefined when it has none. */
  body?: z.ZodType;
  /** The body's media type; JSON unless said otherwise. */
  media?: string;
  /** Headers that only this operation has. */
  headers?: Record<string, z.ZodType>;
}

/** A request that works, as a client would send it. */
export interface Example {
  path?: Record<string, string | number>;
  query?: Record<string, string | number>;
  headers?: Record<string, string>;
  body?: unknown;
}

/** How a refusal is written, where it is not the envelope of spec section 7. */
export interface RefusalFormat {
  media: string;
  /** The body of a refusal. */
  body: z.ZodType;
}

/** One operation. `Scene` is what its example is about: made up in the reference, real in the tests that send it. */
export interface Operation<Scene> {
  tag: string;
  summary: string;
  description?: string;
  /** Its `operationId`, when that is not its handler's name. */
  id?: string;
  /** The very schemas that the handler parses with, unless `readsItself`. */
  path?: z.ZodObject;
  query?: z.ZodObject;
  body?: z.ZodType;
  /** Those of its class's security schemes that let in, when not all of them do. */
  schemes?: readonly (keyof typeof SCHEMES)[];
  /** Set when it can do without a body. */
  optionalBody?: true;
  /** Set when the rules of another protocol decide what is in query and body: the schemas only show them. */
  readsItself?: true;
  /** Headers that it reads, besides credentials and those that every operation reads. */
  headers?: z.ZodObject;
  /** Media types that its body may have, when they are not just JSON. */
  media?: readonly string[];
  /** What fields and parameters mean, by name. */
  fields?: Record<string, string>;
  /** By status. */
  answers: Record<number, Answer>;
  /** Codes that follow neither from its credential, nor from its body's size and shape. */
  errors?: readonly ErrorCode[];
  refusals?: RefusalFormat;
  /** Asks neither the database nor anybody else, so nothing can be away. */
  offline?: true;
  example(scene: Scene): Example;
}

/** Operations by route, as `app.ts` spells it: `GET /teams/:id/grant`. */
export type Operations<Scene> = Record<string, Operation<Scene>>;

/** Everything that the reference of one function is made of, besides its app. */
export interface Reference<Scene> {
  title: string;
  description: string;
  /** Addresses that a client may find it at. */
  servers: readonly { url: string; description: string; variables?: Record<string, { default: string }> }[];
  /** In the order of the reference. */
  tags: readonly { name: string; description: string }[];
  operations: Operations<Scene>;
  scene: Scene;
}
