import { createHmac } from 'node:crypto'
import { chmod, cp, lstat, mkdir, open, readdir, readFile, realpath, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Logger } from 'pino'
import { errorCode, errorText } from '../../../core/errors.js'
import { StateUnreadable } from '../../../core/unreadable.js'
import type { StoreOptions } from '../../../engine/config/store-options.js'
import { DataDirError, type DataDirLock, lockDataDir } from '../../../engine/run/state/data-dir.js'
import { syncFolder, writeAtomic } from '../../../lib/files/atomic-file.js'
import { makeFolder } from '../../../lib/files/make-folder.js'
import { openPostgres } from './postgres.js'
import { KEYS, openSqlite, SERVED_STORE, STORE } from './sqlite.js'
import { type Sql, type Store, StoreError } from './store.js'
import { importStore } from './transfer.js'

/**
 * The data_dir of the service has the folder `store` (unless the store is in PostgreSQL), and the file `secret`, which
 * is the key for the hashes of access keys. A check value in the store shows which secret belongs to it. A store with a
 * check value never gets a new secret. A backup has the store, the secret, and the folder `keys` of idempotency keys.
 */

export interface StoredState {
  readonly store: Store
  /** The store of the idempotency keys. It is a separate file, or `store` itself if nodes share `store`. */
  readonly keys: Store
  readonly secret: Buffer
  /** Copies everything to a new folder while the service runs. `more` can add to the folder. */
  backup(path: string, more?: (path: string) => Promise<void>): Promise<void>
  close(): Promise<void>
}

/** The folder of the idempotency keys, in data_dir and in a backup. */
export const KEYS_FOLDER = 'keys'
const SECRET_BYTES = 32
const CHECK = 'secret-check'

/**
 * Opens or creates the state. Throws StoreError. Its code is SLUICE_STORE_IN_USE if another service runs on the state
 * and `beside` is not set.
 */
export async function openState(
  dataDir: string,
  random: (bytes: number) => Buffer,
  { log, beside = false, store: given }: { log: Logger; beside?: boolean; store?: StoreOptions },
): Promise<StoredState> {
  const ends: (() => unknown)[] = []
  const close = async () => {
    for (const end of ends.reverse()) await end()
  }
  try {
    if (!beside) ends.push((await lock(dataDir)).release)
    const store = await openStore(dataDir, given, log, beside ? STORE : SERVED_STORE)
    ends.push(() => store.close())
    let keys: Store = store
    if (given?.type !== 'postgresql') {
      keys = await openSqlite(join(dataDir, KEYS_FOLDER), log, undefined, KEYS)
      ends.push(() => keys.close())
    }
    const secret = await openSecret(dataDir, store, random)
    const backup: StoredState['backup'] = async (path, more) => {
      await requireOutside(path, dataDir)
      await backUp({ store, keys, secret }, path, more)
    }
    return { store, keys, secret, backup, close }
  } catch (error) {
    await close()
    throw error instanceof StoreError
      ? error
      : unusable(`data_dir ${dataDir} cannot be used: ${errorText(error)}`, error)
  }
}

async function openStore(
  dataDir: string,
  given: StoreOptions | undefined,
  log: Logger,
  purpose = STORE,
): Promise<Store> {
  if (given?.type === 'postgresql') return await openPostgres(given, log)
  return await openSqlite(join(dataDir, 'store'), log, undefined, purpose)
}

/**
 * Imports an exported file into the empty store of `dataDir`. `dataDir` must have the secret of the exported store, and
 * no service may run on it. Resolves with the number of records. Throws StoreError, or Error with the number of the
 * wrong line.
 */
export async function importState(
  path: string,
  dataDir: string,
  { log, store: given }: { log: Logger; store: StoreOptions },
): Promise<number> {
  await makeFolder(dataDir, 0o700)
  const held = await lock(dataDir)
  try {
    const advice =
      'copy the file "secret" from the data_dir of the exported store: the exported keys and secrets need it'
    const file = join(dataDir, 'secret')
    const secret = await readSecret(file)
    if (!secret) throw unusable(`${file} is missing; ${advice}`)
    const store = await openStore(dataDir, given, log)
    try {
      return await importStore(store, path, async sql => {
        if (![undefined, checkOf(secret)].includes(await checkIn(sql)))
          throw new Error(`${file} is not the secret of this store; ${advice}`)
      })
    } finally {
      await store.close()
    }
  } finally {
    held.release()
  }
}

/** Locks `dataDir`, since SQLite would let a second service open the store. */
async function lock(dataDir: string): Promise<DataDirLock> {
  try {
    return await lockDataDir(dataDir)
  } catch (error) {
    if (!(error instanceof DataDirError)) throw error
    const inUse = error.code === 'SLUICE_DATA_DIR_IN_USE'
    throw new StoreError(inUse ? 'SLUICE_STORE_IN_USE' : 'SLUICE_STORE_UNUSABLE', error.message, error)
  }
}

function unusable(message: string, cause?: unknown): StoreError {
  return new StoreError('SLUICE_STORE_UNUSABLE', message, cause)
}

async function openSecret(dataDir: string, store: Store, random: (bytes: number) => Buffer): Promise<Buffer> {
  const path = join(dataDir, 'secret')
  let check = await checkIn(store)
  check ??= await store.change('', async sql => {
    // Another process may have created the check value in the meantime.
    const made = await checkIn(sql)
    if (made !== undefined) return made
    const secret = (await readSecret(path)) ?? random(SECRET_BYTES)
    // If the store is in PostgreSQL, data_dir may not exist yet when `sluice admin init` runs.
    await makeFolder(dataDir, 0o700)
    await writeAtomic(path, `${secret.toString('hex')}\n`)
    await sql.run('INSERT INTO setting (name, value) VALUES ($1, $2)', CHECK, checkOf(secret))
    return checkOf(secret)
  })
  const secret = await readSecret(path)
  if (!secret)
    throw unusable(`${path} is missing, and no key works without it; restore it from a backup of this data_dir`)
  if (check !== checkOf(secret)) throw unusable(`${path} is not the secret that this store was made with`)
  return secret
}

async function checkIn(sql: Sql): Promise<string | undefined> {
  return (await sql.get<{ value: string }>('SELECT value FROM setting WHERE name = $1', CHECK))?.value
}

async function readSecret(path: string): Promise<Buffer | undefined> {
  try {
    const found = await stat(path)
    // Reading a FIFO could wait forever.
    if (!found.isFile()) throw unusable(`${path} is not a file; restore it from a backup of this data_dir`)
    if (found.mode & 0o077) throw unusable(`other users can read ${path}; run: chmod 600 ${path}`)
    const text = (await readFile(path, 'latin1')).trim()
    if (/^[0-9a-f]{64}$/.test(text)) return Buffer.from(text, 'hex')
    throw unusable(`${path} does not hold a secret; restore it from a backup of this data_dir`)
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    if (error instanceof StoreError) throw error
    throw unusable(new StateUnreadable(path, error).message, error)
  }
}

function checkOf(secret: Buffer): string {
  return createHmac('sha256', secret).update('the secret of this store').digest('hex')
}

/** Throws if `path` is in `dataDir`, because a backup there would copy itself, and would be lost with the data. */
async function requireOutside(path: string, dataDir: string): Promise<void> {
  const parent = await realpath(dirname(path)).catch(() => dirname(path))
  const own = await realpath(dataDir)
  if (parent !== own && !parent.startsWith(`${own}/`)) return
  throw unusable(`the backup cannot be made in ${path}, which is in data_dir; name a folder outside of it`)
}

async function backUp(
  { store, keys, secret }: Pick<StoredState, 'store' | 'keys' | 'secret'>,
  path: string,
  more?: (path: string) => Promise<void>,
): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 })
  } catch (error) {
    throw unusable(`the backup cannot be made in ${path}: ${errorText(error)}; name a folder that does not exist yet`)
  }
  try {
    await store.backup(join(path, 'store'))
    // Keys are copied before the events (`more`), because the backup must not have a key without its events.
    await keys.backup(join(path, KEYS_FOLDER))
    await more?.(path)
    await secureTree(path)
    // The secret is written last, so that an incomplete backup has no secret and cannot be restored.
    await writeAtomic(join(path, 'secret'), `${secret.toString('hex')}\n`)
  } catch (error) {
    await rm(path, { recursive: true, force: true })
    throw error
  }
}

/**
 * Restores a backup into `dataDir`. Throws if `dataDir` has a store; with `replace`, moves it to a subfolder instead.
 * Checks the backup before changing anything. Also restores those `folders` the backup has.
 */
export async function restoreState(
  backup: string,
  dataDir: string,
  options: { replace?: boolean; folders?: readonly string[] } = {},
): Promise<void> {
  const secret = await readSecret(join(backup, 'secret'))
  if (!secret) throw unusable(`${backup} is not a complete backup: it has no secret`)
  const { release } = await lock(dataDir)
  try {
    await replaceState(backup, dataDir, secret, options)
  } finally {
    release()
  }
}

async function replaceState(
  backup: string,
  dataDir: string,
  secret: Buffer,
  options: { replace?: boolean; folders?: readonly string[] },
): Promise<void> {
  const target = join(dataDir, 'store')
  const present = await stat(target).catch(() => undefined)
  if (present && !options.replace) throw unusable(`${target} exists; restore into an empty data_dir, or use --replace`)
  const staging = (name: string) => join(dataDir, `${name}.restored`)
  const names = ['store']
  for (const name of options.folders ?? []) if (await exists(join(backup, name))) names.push(name)
  for (const name of names)
    if (name !== 'store' && !options.replace && (await exists(join(dataDir, name))))
      throw unusable(`${join(dataDir, name)} exists; restore into an empty data_dir, or use --replace`)
  for (const name of names)
    if (!(await stat(join(backup, name))).isDirectory()) throw unusable(`${join(backup, name)} is not a folder`)
  try {
    for (const name of names) {
      await rm(staging(name), { recursive: true, force: true })
      await cp(join(backup, name), staging(name), { recursive: true, filter: isContent })
    }
    await checkCopy(staging('store'), secret, backup)
    for (const name of names) await secureTree(staging(name))
    if (options.replace) await setAside(dataDir, names)
    // The store is renamed last. If the restore is interrupted, the missing store shows that the restore is incomplete.
    for (const name of names.reverse()) await rename(staging(name), join(dataDir, name))
    await writeAtomic(join(dataDir, 'secret'), `${secret.toString('hex')}\n`)
  } catch (error) {
    for (const name of names) await rm(staging(name), { recursive: true, force: true })
    throw error instanceof StoreError ? error : unusable(`cannot restore ${backup}: ${errorText(error)}`, error)
  }
}

async function checkCopy(path: string, secret: Buffer, backup: string): Promise<void> {
  let found: unknown
  try {
    const store = await openSqlite(path)
    try {
      found = await checkIn(store)
    } finally {
      await store.close()
    }
  } catch (error) {
    const why = errorText(error).replaceAll(path, join(backup, 'store'))
    throw unusable(`${backup} is not restored, because its store is damaged: ${why}`, error)
  }
  if (found === undefined) throw unusable(`${backup} is not restored: its store is empty`)
  if (found !== checkOf(secret)) throw unusable(`the secret and the store of ${backup} do not belong together`)
}

async function setAside(dataDir: string, names: readonly string[]): Promise<void> {
  const present = await Promise.all(names.map(name => exists(join(dataDir, name))))
  if (!present.includes(true)) return
  for (let i = 1; ; i++) {
    const old = join(dataDir, `replaced-${i}`)
    try {
      await mkdir(old, { mode: 0o700 })
    } catch (error) {
      if (errorCode(error) === 'EEXIST') continue
      throw error
    }
    for (const name of [...names, 'secret'])
      await rename(join(dataDir, name), join(old, name)).catch(error => {
        if (errorCode(error) !== 'ENOENT') throw error
      })
    return
  }
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  )
}

/** Throws for links, because anyone who can put a link into a backup could choose which files are read or written. */
async function isContent(path: string): Promise<boolean> {
  const found = await lstat(path)
  if (found.isFile() || found.isDirectory()) return true
  throw unusable(`${path} is neither a file nor a folder and cannot be part of a backup; remove it`)
}

/** Syncs everything in a folder, and makes it readable only by its owner. */
async function secureTree(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) await secureTree(path)
    // With Node.js 20, the log of a closed connection may disappear now, when the connection's memory is freed.
    else await secureFile(path).catch(unlessMissing)
  }
  await chmod(folder, 0o700)
  await syncFolder(folder)
}

function unlessMissing(error: unknown): void {
  if (errorCode(error) !== 'ENOENT') throw error
}

async function secureFile(path: string): Promise<void> {
  const file = await open(path, 'r')
  try {
    await file.chmod(0o600)
    await file.sync()
  } finally {
    await file.close()
  }
}
