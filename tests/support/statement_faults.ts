/**
 * Faults inside a transaction: a trigger before every statement that writes to a table of ours ends the transaction at
 * the statement that a test names, so that every place between two writes of one function is tried.
 */

import type { World } from "./harness.ts";

/** How a transaction ends. */
export type Ending =
  /** The statement fails as a full disk makes it fail. */
  | "disk full"
  /** It is chosen to end a deadlock. */
  | "deadlock"
  /** An operator, or the system, ends the connection's process on the server. */
  | "terminated";

/** The faults of one database. */
export interface StatementFaults {
  /** Ends the transaction at the `nth` write from now on, counted from 1; `sticky` at every write after it too. */
  arm(ending: Ending, nth: number, sticky: boolean): Promise<void>;
  /** Lets everything through; returns how many writes there were since `arm` or `disarm`. */
  disarm(): Promise<number>;
}

const INSTALL = `
  create schema if not exists faults;
  create sequence if not exists faults.writes minvalue 0;
  create table if not exists faults.armed (ending text, nth bigint, sticky boolean);
  grant usage on schema faults to public;
  create or replace function faults.strike() returns trigger language plpgsql security definer as $$
  declare
    v_armed faults.armed;
    v_write bigint := nextval('faults.writes');
  begin
    select * into v_armed from faults.armed;
    if v_armed.ending is null or v_write < v_armed.nth or (v_write > v_armed.nth and not v_armed.sticky) then
      return null;
    end if;
    case v_armed.ending
      when 'disk full' then raise exception 'no space left' using errcode = '53100';
      when 'deadlock' then raise exception 'deadlock detected' using errcode = '40P01';
      when 'terminated' then perform pg_terminate_backend(pg_backend_pid()), pg_sleep(5);
    end case;
    return null;
  end
  $$;
  do $$
  declare
    v_table regclass;
  begin
    for v_table in select c.oid from pg_class c where c.relnamespace = 'app'::regnamespace and c.relkind = 'r' loop
      execute format('create trigger aaa_fault before insert or update or delete on %s
        for each statement execute function faults.strike()', v_table);
    end loop;
  end
  $$`;

/** Installs the triggers in a world's database. */
export async function installStatementFaults(world: World): Promise<StatementFaults> {
  await world.sql.query(INSTALL);
  async function disarm(): Promise<number> {
    await world.sql.query("delete from faults.armed");
    const { rows } = await world.sql.query("select nextval('faults.writes')::int - 1 as writes");
    await world.sql.query("select setval('faults.writes', 0)");
    return rows[0].writes;
  }
  return {
    disarm,
    async arm(ending, nth, sticky) {
      await disarm();
      await world.sql.query("insert into faults.armed values ($1, $2, $3)", [ending, nth, sticky]);
    },
  };
}
