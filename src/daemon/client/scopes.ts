export const SCOPES = [
  'pipeline:read',
  'pipeline:write',
  'ingest:write',
  'user:key',
  'account:manage',
  'enterprise:manage',
] as const
export type Scope = (typeof SCOPES)[number]

export const ROLES = ['manager', 'editor', 'viewer'] as const
export type Role = (typeof ROLES)[number]

export const SCOPE_MEANINGS: Readonly<Record<Scope, string>> = {
  'pipeline:read': 'Read pipelines, their revisions, the names of secrets and the fleet; report as a daemon.',
  'pipeline:write': 'Create, change, publish, roll back and delete pipelines; save and delete secrets.',
  'ingest:write': 'Send events to a published pipeline.',
  'user:key': 'Create, list and revoke personal keys for the user of this key.',
  'account:manage': 'Manage the users, service accounts, keys and features of an account; read its audit log.',
  'enterprise:manage': 'Manage the accounts and service accounts of an enterprise; read its audit log.',
}

const VIEWER: readonly Scope[] = ['pipeline:read', 'user:key']
const EDITOR: readonly Scope[] = ['pipeline:read', 'pipeline:write', 'ingest:write', 'user:key']

/** All scopes of a user by role. A personal key never grants more. */
export const ROLE_SCOPES: Readonly<Record<Role, readonly Scope[]>> = {
  viewer: VIEWER,
  editor: EDITOR,
  manager: [...EDITOR, 'account:manage'],
}

/** The possible scopes of an account's service accounts. They cannot administer anything. */
export const SERVICE_SCOPES = ['pipeline:read', 'pipeline:write', 'ingest:write'] as const satisfies readonly Scope[]

export const ENTERPRISE_SCOPES = [
  ...SERVICE_SCOPES,
  'account:manage',
  'enterprise:manage',
] as const satisfies readonly Scope[]
