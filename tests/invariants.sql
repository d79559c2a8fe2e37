-- What must hold in the database at every moment between two transactions. Each query returns the rows that break its
-- rule; no row means that it holds. Run after every test file, on whatever the tests left behind.

-- money: a balance is the sum of its ledger
select a.id, a.credits_milli, sum(l.amount_milli)
  from app.accounts a left join app.credit_ledger l on l.account_id = a.id
 group by a.id having a.credits_milli <> coalesce(sum(l.amount_milli), 0);

-- money: every charge is the price of its bytes
select id, amount_milli, bytes from app.credit_ledger
 where kind in ('replication', 'snapshot') and -amount_milli <> app.price_milli(bytes);

-- money: a paid snapshot was charged once, and refunded exactly when it failed
select s.id, s.status
  from app.snapshots s
  left join app.credit_ledger l on l.reference = s.id
 where s.cost_milli > 0
 group by s.id
having count(*) filter (where l.kind = 'snapshot' and l.amount_milli = -s.cost_milli) <> 1
    or count(*) filter (where l.kind = 'snapshot_refund' and l.amount_milli = s.cost_milli)
       <> (s.status = 'failed')::int;

-- money: stored bytes are those of the logs and snapshots that are kept (accounts outside teams)
select a.id, a.stored_bytes
  from app.accounts a
 where not exists (select from app.team_members m where m.account_id = a.id)
   and a.stored_bytes <> coalesce((select sum(total_bytes) from app.logs where owner_id = a.id), 0)
     + coalesce((select sum(byte_size) from app.snapshots where account_id = a.id and status <> 'failed'), 0);

-- snapshots: the confirmed ones of an agent are 0 to its head, without a hole
select g.id, g.head_sequence
  from app.agents g left join app.snapshots s on s.agent_ref = g.id and s.status = 'confirmed'
 group by g.id
having count(s.id) <> g.head_sequence + 1
    or coalesce(max(s.sequence_number), -1) <> g.head_sequence
    or min(s.sequence_number) <> 0;

-- snapshots: a confirmed one has exactly one confirmed attempt, whose object it names
select s.id
  from app.snapshots s
 where s.status = 'confirmed'
   and (select count(*) from app.snapshot_attempts t
         where t.snapshot_id = s.id and t.status = 'confirmed' and t.object_name = s.object_name) <> 1;

-- snapshots: a pending one is worked for by an attempt
select s.id from app.snapshots s
 where s.status = 'pending'
   and not exists (select from app.snapshot_attempts t where t.snapshot_id = s.id and t.status = 'pending');

-- snapshots: no upload that failed, and may be swept up, has the object of one that is kept
select t.id from app.snapshot_attempts t join app.snapshots s on s.object_name = t.object_name
 where t.status <> 'confirmed' or t.snapshot_id <> s.id;

-- mail: nobody is owed a welcome twice, and none without a note that it was
select m.recipient, m.kind
  from app.mail_outbox m join app.accounts a on a.email = m.recipient
 where m.kind in ('welcome', 'first_snapshot')
 group by m.recipient, m.kind
having count(distinct m.id) > count(distinct a.id)
    or not bool_or(exists (
      select from app.lifecycle_mails l where l.account_id = a.id and l.kind = m.kind));

-- replication: a log is its first entry to its head without a hole, and its row says what is in it
select l.id, l.first_sequence, l.head_sequence
  from app.logs l left join app.log_entries e on e.log_id = l.id
 group by l.id
having count(e.sequence_number) <> l.head_sequence - l.first_sequence + 1
    or min(e.sequence_number) <> l.first_sequence
    or max(e.sequence_number) <> l.head_sequence
    or sum(octet_length(e.ciphertext)) <> l.total_bytes;

-- replication: a block's hash is that of its bytes
select log_id, sequence_number from app.log_entries where block_hash <> sha256(ciphertext);

-- replication: the head's root is that of the last entry
select l.id from app.logs l join app.log_entries e on e.log_id = l.id and e.sequence_number = l.head_sequence
 where e.merkle_root <> l.merkle_root;

-- audit: each chain is dense, linked and unaltered, and ends at its head
select team_id, seq
  from (
    select e.team_id, e.seq, e.prev_hash, e.entry_hash, app.hash_audit_entry(e) as computed,
           row_number() over w - 1 as place,
           coalesce(lag(e.entry_hash) over w, decode(repeat('00', 32), 'hex')) as expected
      from app.audit_entries e window w as (partition by e.team_id order by e.seq)
  ) c
 where seq <> place or prev_hash <> expected or entry_hash <> computed
union all
select t.id, t.audit_seq
  from app.teams t left join app.audit_entries e on e.team_id = t.id and e.seq = t.audit_seq
 where e.entry_hash is distinct from t.audit_hash
    or t.audit_seq + 1 <> (select count(*) from app.audit_entries where team_id = t.id);

-- teams: only active members hold a grant, and every grant is of the running epoch
select g.team_id, g.account_id
  from app.team_grants g
  join app.teams t on t.id = g.team_id
  join app.team_members m on m.team_id = g.team_id and m.account_id = g.account_id
 where m.status <> 'active' or g.rotation_seq <> t.rotation_seq;

-- teams: somebody is left to administer each, and holds its key
select t.id from app.teams t
 where not exists (
   select from app.team_members m join app.team_grants g on g.team_id = m.team_id and g.account_id = m.account_id
    where m.team_id = t.id and m.role = 'admin' and m.status = 'active');

-- teams: nobody who left has a live sub-key
select k.id
  from app.api_keys k
  join app.team_members m on m.team_id = k.team_id and m.account_id = k.account_id
 where m.status <> 'active' and k.revoked_at is null;

-- teams: the memory is 0 to its head without a hole, and epochs never go back
select t.id, t.memory_seq
  from app.teams t left join app.team_memories m on m.team_id = t.id
 group by t.id
having count(m.seq) <> t.memory_seq + 1 or coalesce(max(m.seq), -1) <> t.memory_seq
union all
select team_id, seq
  from (select team_id, seq, rotation_seq, lag(rotation_seq) over (partition by team_id order by seq) as before
          from app.team_memories) m
 where rotation_seq < before
union all
select m.team_id, m.seq from app.team_memories m join app.teams t on t.id = m.team_id
 where m.rotation_seq > t.rotation_seq;

-- teams: the epoch whose key somebody took along is not ahead of the running one
select id from app.teams where exposed_rotation_seq > rotation_seq;

-- directory: whoever is active and known is, or was by an admin's decision, a member of the team
select u.id
  from app.scim_users u
 where u.active and u.account_id is not null
   and not exists (
     select from app.team_members m where m.team_id = u.team_id and m.account_id = u.account_id);

-- directory: a configuration that is enabled has proved each of its domains
select c.team_id, d.domain
  from app.sso_configs c cross join unnest(c.domains) d (domain)
 where c.enabled
   and not exists (select from app.sso_domains p where p.team_id = c.team_id and p.domain = d.domain);

-- directory: a team holds only domains that it lists
select p.team_id, p.domain
  from app.sso_domains p join app.sso_configs c on c.team_id = p.team_id
 where p.domain <> all (c.domains);

-- vaults: each ledger is dense, linked and unaltered, and ends at its head
select vault_id, seq
  from (
    select e.vault_id, e.seq, e.prev_hash, e.entry_hash,
           app.hash_audit_entry(app.as_audit_entry(e)) as computed, row_number() over w - 1 as place,
           coalesce(lag(e.entry_hash) over w, decode(repeat('00', 32), 'hex')) as expected
      from app.vault_audit_entries e window w as (partition by e.vault_id order by e.seq)
  ) c
 where seq <> place or prev_hash <> expected or entry_hash <> computed
union all
select v.id, v.audit_seq
  from app.vaults v left join app.vault_audit_entries e on e.vault_id = v.id and e.seq = v.audit_seq
 where e.entry_hash is distinct from v.audit_hash
    or v.audit_seq + 1 <> (select count(*) from app.vault_audit_entries where vault_id = v.id);

-- vaults: every transition has its entry, and nothing is released to nobody
select v.id from app.vaults v
 where v.version <> (select count(*) from app.vault_audit_entries e where e.vault_id = v.id and e.action in (
         'release.begin', 'release.complete', 'release.block', 'release.cancel', 'release.rearm'))
    or (v.picked_up_at is not null and not exists (
         select from app.vault_people p where p.vault_id = v.id and p.role = 'heir' and p.picked_up_at is not null));

-- vaults: whoever is out holds nothing, and no more shares are kept than the preset has
select p.id from app.vault_people p
 where p.ended_at is not null and (
   p.wrapped_share is not null
   or exists (select from app.vault_tokens t where t.person_id = p.id)
   or exists (select from app.vault_asset_keys k where k.person_id = p.id))
union all
select v.id from app.vaults v
 where app.vault_shares(v.sss_preset) < (
   select count(*) from app.vault_people p where p.vault_id = v.id and p.wrapped_share is not null);

-- money: an order is worth what its payment said, once, and a refund takes no more than that
select o.order_id
  from app.polar_orders o
  left join app.credit_ledger l on l.account_id = o.account_id and l.note = o.order_id
 group by o.order_id
having coalesce(sum(l.amount_milli) filter (where l.kind = 'purchase'), 0) <> coalesce(o.credits_milli, 0)
    or count(*) filter (where l.kind = 'purchase') <> (o.credits_milli is not null)::int
    or coalesce(-sum(l.amount_milli) filter (where l.kind = 'purchase_refund'), 0)
       > least(o.settled_milli, coalesce(o.credits_milli, 0));

-- money: nothing lies in a log of a person that was not paid for
select l.id
  from app.logs l join app.accounts a on a.id = l.owner_id and a.subject is not null
 where l.total_bytes > coalesce((
   select sum(bytes) from app.credit_ledger where account_id = a.id and kind = 'replication'), 0);

-- money: who is not charged has no charges
select a.id from app.accounts a join app.credit_ledger l on l.account_id = a.id where a.token_hash is not null
union all
select s.id from app.snapshots s join app.accounts a on a.id = s.account_id
 where a.token_hash is not null and s.cost_milli <> 0;

-- money: no hold is older than its lease and the pauses of ten sweeps
select s.id from app.snapshots s
 where s.status = 'pending'
   and not exists (
     select from app.snapshot_attempts t
      where t.snapshot_id = s.id and t.status = 'pending' and t.lease_expires_at > now() - interval '10 minutes');

-- usage: requests that wrote are counted once with their owner and once with their log (owners outside teams)
select l.owner_id
  from app.logs l join app.accounts a on a.id = l.owner_id
  left join app.usage_cycles u on u.owner_id = l.owner_id
 group by l.id
having l.sync_ops <> coalesce(sum(u.sync_ops), 0);

-- tenants: who keeps something for themselves pays for it themselves
select s.id
  from app.snapshots s
  join app.agents g on g.id = s.agent_ref
  join app.owners o on o.id = g.owner_id and o.kind <> 'team'
 where s.account_id <> g.owner_id
union all
select null from app.logs l join app.owners o on o.id = l.owner_id and o.kind <> 'team'
 where l.member_id <> l.owner_id;

-- tenants: a team's log is a member's, present or past
select l.id
  from app.logs l join app.teams t on t.id = l.owner_id
 where not exists (select from app.team_members m where m.team_id = t.id and m.account_id = l.member_id);

-- tenants: every account and every team is an owner of its own kind
select o.id, o.kind
  from app.owners o
  left join app.accounts a on a.id = o.id
  left join app.teams t on t.id = o.id
 where num_nonnulls(a.id, t.id) > 1
    or (a.id is not null and o.kind <> case when a.subject is null then 'project' else 'user' end)
    or (t.id is not null and o.kind <> 'team');

-- snapshots: each object belongs to one attempt, and its name begins with that attempt
select object_name from app.snapshot_attempts where object_name not like id || '/%';

-- snapshots: a confirmed one has no rival that is still held
select s.id
  from app.snapshots s
  join app.snapshots rival on rival.agent_ref = s.agent_ref and rival.sequence_number = s.sequence_number
 where s.status = 'confirmed' and rival.status = 'pending';

-- audit: times never go back along a chain
select team_id, seq
  from (select team_id, seq, created_at, lag(created_at) over (partition by team_id order by seq) as before
          from app.audit_entries) e
 where created_at < before;

-- audit: a team begins with its making, and has one entry for each epoch
select t.id
  from app.teams t left join app.audit_entries e on e.team_id = t.id
 group by t.id
having count(*) filter (where e.action = 'team.create') <> 1
    or min(e.seq) filter (where e.action = 'team.create') <> 0
    or count(*) filter (where e.action = 'team.rotate') <> t.rotation_seq;

-- audit: each sub-key has the entry of its making, and of its end at most one
select k.id
  from app.api_keys k left join app.audit_entries e on e.team_id = k.team_id and e.resource_id = k.id::text
 where k.team_id is not null
 group by k.id
having count(*) filter (where e.action = 'subkey.create') <> 1
    or count(*) filter (where e.action = 'subkey.revoke') > 1;

-- audit: who has left has an entry for it
select m.team_id, m.account_id
  from app.team_members m join app.accounts a on a.id = m.account_id
 where m.status <> 'active'
   and not exists (
     select from app.audit_entries e
      where e.team_id = m.team_id and e.action = 'member.remove' and e.resource_id = a.subject);

-- teams: who made a team, or took it over, is an active member of it
select t.id from app.teams t
 where not exists (
   select from app.team_members m
    where m.team_id = t.id and m.account_id = t.account_id and m.status = 'active');

-- teams: a memory is of an author who was a member then
select n.team_id, n.seq
  from app.team_memories n
 where n.author_id is not null
   and not exists (select from app.team_members m where m.team_id = n.team_id and m.account_id = n.author_id);

-- webhooks: nothing waits to be sent to one that is disabled or deleted
select d.id
  from app.webhook_deliveries d join app.webhooks w on w.id = d.webhook_id
 where d.status = 'pending' and (w.state <> 'active' or w.deleted_at is not null);

-- webhooks: at most one delivery of each is under way
select webhook_id from app.webhook_deliveries where lease_expires_at > now()
 group by webhook_id having count(*) > 1;

-- webhooks: what is said to be delivered or given up was tried
select id from app.webhook_deliveries where status in ('delivered', 'exhausted') and attempts = 0;

-- secrets: what opens something is kept as a hash, and what is shown of it is masked
select id::text from app.api_keys where octet_length(key_hash) <> 32 or masked_key ~ '[0-9A-Za-z]{24}'
union all
select id::text from app.mail_outbox where facts::text ~ 'inv_|sov_live_|whsec_|scim_';

-- secrets: every table of ours has row-level security on
select c.relname
  from pg_class c
 where c.relnamespace = 'app'::regnamespace and c.relkind in ('r', 'p') and not c.relrowsecurity;

-- secrets: no function of ours may be called by everybody
select p.oid::regprocedure::text
  from pg_proc p
 where p.pronamespace in ('api'::regnamespace, 'app'::regnamespace)
   and exists (
     select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
       left join pg_roles r on r.oid = a.grantee
      where a.privilege_type = 'EXECUTE' and (a.grantee = 0 or r.rolname in ('anon', 'authenticated')));
