import type { Sql } from '../../src/service/api/store/store.js'

/** Rows that mean nothing to the service, for tests of the store itself. */

export function put(sql: Sql, name: string, value: string): Promise<number> {
  const text =
    'INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value'
  return sql.run(text, name, value)
}

export async function settingOf(sql: Sql, name: string): Promise<string | undefined> {
  return (await sql.get<{ value: string }>('SELECT value FROM setting WHERE name = $1', name))?.value
}
