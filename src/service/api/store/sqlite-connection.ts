import type { Value } from './store.js'

/** A connection to an SQLite database. It caches prepared statements. */

interface Statement {
  all(values: object): unknown[]
  get(values: object): unknown
  run(values: object): { readonly changes: number | bigint }
}

interface Database {
  prepare(text: string): Statement
  exec(text: string): void
  close(): void
}

type Sqlite = new (path: string, options?: { readOnly: boolean }) => Database

/**
 * A connection in this thread or in another thread. In this thread, its methods throw the errors of SQLite. In another
 * thread, they reject with these errors.
 */
export interface Writer {
  exec(text: string): void | Promise<void>
  execute(how: keyof Statement, text: string, values: readonly Value[]): unknown
  close(): void | Promise<void>
}

export class SqliteConnection implements Writer {
  readonly #database: Database
  readonly #prepared = new Map<string, Statement>()

  constructor(database: Database) {
    this.#database = database
  }

  exec(text: string): void {
    this.#database.exec(text)
  }

  execute(how: keyof Statement, text: string, values: readonly Value[]): unknown {
    let statement = this.#prepared.get(text)
    if (!statement) this.#prepared.set(text, (statement = this.#database.prepare(text)))
    return statement[how](Object.fromEntries(values.map((value, i) => [`$${i + 1}`, value])))
  }

  close(): void {
    this.#database.close()
  }
}

/** The module of Node.js 22.13 and later, or the package with the same interface. */
export async function loadSqlite(): Promise<Sqlite> {
  const { emitWarning } = process
  // Hides the warning that the module is experimental, because operators cannot act on this warning.
  process.emitWarning = ((...about: Parameters<typeof emitWarning>) => {
    if ((about[1] as unknown) !== 'ExperimentalWarning') Reflect.apply(emitWarning, process, about)
  }) as typeof emitWarning
  try {
    return (await import('node:sqlite' as string).catch(() => import('@photostructure/sqlite'))).DatabaseSync
  } finally {
    process.emitWarning = emitWarning
  }
}
