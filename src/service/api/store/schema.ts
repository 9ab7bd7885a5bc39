/** Idempotency keys. `received` is null while the request is in progress. `until` is in milliseconds. */
const KEYS = `
  CREATE TABLE idempotency (
    pipeline_id text NOT NULL, key text NOT NULL, account_id text NOT NULL, body text NOT NULL, received integer,
    until bigint NOT NULL, PRIMARY KEY (pipeline_id, key));
  CREATE INDEX idempotency_of ON idempotency (account_id, until);`

/**
 * The migrations that create the tables. Opening a store runs the missing migrations. Migrations only add to the
 * schema, so the previous release can still use the store.
 */
export const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE setting (name text PRIMARY KEY, value text NOT NULL);
  CREATE TABLE enterprise (id text PRIMARY KEY, title text NOT NULL, created_at text NOT NULL);
  CREATE TABLE account (
    id text PRIMARY KEY, enterprise_id text NOT NULL, short_id text NOT NULL UNIQUE, title text NOT NULL,
    features text NOT NULL, created_at text NOT NULL);
  CREATE INDEX account_of ON account (enterprise_id, id);
  CREATE TABLE person (
    id text PRIMARY KEY, enterprise_id text NOT NULL, account_id text NOT NULL, email text NOT NULL,
    title text NOT NULL, role text NOT NULL, created_at text NOT NULL, UNIQUE (account_id, email));
  CREATE INDEX person_of ON person (account_id, id);
  CREATE TABLE service_account (
    id text PRIMARY KEY, owner_id text NOT NULL, enterprise_id text NOT NULL, account_id text, title text NOT NULL,
    scopes text NOT NULL, key_id text, created_at text NOT NULL);
  CREATE INDEX service_account_of ON service_account (owner_id, id);
  CREATE TABLE access_key (
    id text PRIMARY KEY, hash text NOT NULL UNIQUE, type text NOT NULL, subject_id text NOT NULL,
    enterprise_id text NOT NULL, account_id text, title text NOT NULL, scopes text, parent_id text,
    created_at text NOT NULL, expires_at text, revoked_at text, gives_until text);
  CREATE INDEX access_key_of ON access_key (subject_id, id);
  CREATE INDEX access_key_end ON access_key (expires_at) WHERE expires_at IS NOT NULL;
  CREATE INDEX access_key_revoked ON access_key (revoked_at) WHERE revoked_at IS NOT NULL;
  CREATE TABLE key_use (key_id text PRIMARY KEY, at text NOT NULL);
  CREATE TABLE pipeline (
    id text PRIMARY KEY, enterprise_id text NOT NULL, account_id text NOT NULL, title text NOT NULL,
    revision integer NOT NULL, published_revision integer, published_at text, version integer NOT NULL,
    created_at text NOT NULL, updated_at text NOT NULL, removed_at text);
  CREATE INDEX pipeline_of ON pipeline (account_id, id);
  CREATE INDEX pipeline_of_enterprise ON pipeline (enterprise_id, id);
  CREATE INDEX pipeline_removed ON pipeline (id) WHERE removed_at IS NOT NULL;
  CREATE TABLE revision (
    pipeline_id text NOT NULL, revision integer NOT NULL, account_id text NOT NULL, bytes integer NOT NULL,
    created_at text NOT NULL, created_by text NOT NULL, config text NOT NULL, PRIMARY KEY (pipeline_id, revision));
  CREATE INDEX revision_of ON revision (account_id, bytes);
  CREATE TABLE secret (
    account_id text NOT NULL, name text NOT NULL, id text NOT NULL, sealed text NOT NULL, created_at text NOT NULL,
    updated_at text NOT NULL, updated_by text NOT NULL, PRIMARY KEY (account_id, name));
  CREATE TABLE daemon (
    pipeline_id text NOT NULL, id text NOT NULL, enterprise_id text NOT NULL, account_id text NOT NULL,
    registered_at text NOT NULL, reported_at text NOT NULL, report text NOT NULL, PRIMARY KEY (pipeline_id, id));
  CREATE INDEX daemon_of ON daemon (account_id, pipeline_id, id);
  CREATE INDEX daemon_of_enterprise ON daemon (enterprise_id, pipeline_id, id);
  CREATE INDEX daemon_reported ON daemon (reported_at);
  CREATE TABLE audit (
    id text PRIMARY KEY, owner_id text NOT NULL, enterprise_id text NOT NULL, account_id text, at text NOT NULL,
    action text NOT NULL, entry text NOT NULL);
  CREATE INDEX audit_of ON audit (owner_id, id);
  `,
  // Tables that nodes share. An embedded store does not use them.
  `
  CREATE TABLE node (
    id text PRIMARY KEY, name text NOT NULL, beat bigint NOT NULL, seen_at text NOT NULL, events bigint NOT NULL);
  CREATE TABLE job (name text PRIMARY KEY, until bigint NOT NULL);
  ${KEYS}
  `,
]

/** The migrations of the file with idempotency keys, if the store is embedded. */
export const KEY_MIGRATIONS: readonly string[] = [KEYS]
