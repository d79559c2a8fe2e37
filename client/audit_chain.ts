/**
 * The audit ledger's verifier. There is one implementation, the service's; it needs nothing but hashes, and the npm
 * package carries it compiled in.
 */

export * from "../supabase/functions/_shared/domain/audit_chain.ts";
