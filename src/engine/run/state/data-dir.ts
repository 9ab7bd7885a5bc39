import { randomUUID } from 'node:crypto'
import {
  existsSync,
  linkSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { errorCode, errorText, isMissing, lacksDescriptor } from '../../../core/errors.js'
import { StateUnreadable } from '../../../core/unreadable.js'
import { makeFolder } from '../../../lib/files/make-folder.js'
import { shortPath } from '../../../lib/network/short-path.js'

/**
 * One daemon per data folder. The lock is a file `lock.N` that names the process that took it. Only the highest N
 * counts, as long as its process lives. A process that finds the lock abandoned creates `lock.N+1` with a hard link.
 * The link fails if the name exists, so only one process succeeds, and the file appears with its complete content. The
 * holder then removes lower numbers. Its own file stays after the release, so N never decreases. The file `lock.spare`,
 * usually the previous lock, reserves disk space: on a full disk, the new lock overwrites it.
 *
 * A process is found by its id, which is only valid in its PID namespace. To check a holder in another namespace, such
 * as another container, a process connects to the socket that the lock names. The holder listens on this socket before
 * it takes the lock. The kernel refuses connections once the holder has ended.
 */

export interface DataDirLock {
  release(): void
  /** Locks the folder again if it was removed or replaced, and then resolves with true. Rejects with DataDirError. */
  renew(): Promise<boolean>
}

/** Another daemon holds the folder, or the folder cannot be used. */
export class DataDirError extends Error {
  readonly code: 'SLUICE_DATA_DIR_IN_USE' | 'SLUICE_DATA_DIR_UNUSABLE'
  /** The process that holds the folder; undefined if it is in another PID namespace. */
  readonly pid: number | undefined
  constructor(code: DataDirError['code'], message: string, { cause, pid }: { cause?: unknown; pid?: number } = {}) {
    super(message, { cause })
    this.code = code
    this.pid = pid
  }
}

function adviceFor(error: unknown): string {
  if (lacksDescriptor(error))
    return 'no more files can be opened at the moment; try again, or raise the limit (ulimit -n, fs.file-max)'
  switch (errorCode(error)) {
    case 'ENOSPC':
    case 'EDQUOT':
      return 'free some disk space; positions cannot be saved without it'
    case 'EROFS':
      return 'mount its file system for writing'
    default:
      return 'it must be a folder that this user can write to'
  }
}

interface Holder {
  readonly pid: number
  /** Start time of the process, in ticks after the boot. The pid alone is not enough, because pids are reused. */
  readonly started: string
  readonly boot: string
  readonly namespace: string
  /** The name of the process's socket in the folder; undefined if the file system does not support sockets. */
  readonly socket: string | undefined
}

interface Taken {
  readonly path: string
  readonly text: string
  readonly socket: Server | undefined
}

const LOCK = /^lock\.(\d{1,15})$/
/** The highest number that LOCK matches. */
const HIGHEST = 10 ** 15 - 1
const SPARE = 'lock.spare'
const FULL = ['ENOSPC', 'EDQUOT']
const SOCKET = /^lock-[\da-f-]{36}\.sock$/

/** Creates the folder if it is missing, and locks it. Rejects with DataDirError if another living process holds it. */
export async function lockDataDir(dir: string, namespace = ownNamespace()): Promise<DataDirLock> {
  let taken = await take(dir, namespace)
  let held = true
  return {
    release: () => {
      if (held) release(taken)
      held = false
    },
    renew: async () => {
      if (!held || has(taken)) return false
      const renewed = await take(dir, namespace)
      taken.socket?.close()
      taken = renewed
      // The lock was released meanwhile.
      if (!held) release(taken)
      return held
    },
  }
}

async function take(dir: string, namespace: string): Promise<Taken> {
  const name = `lock-${randomUUID()}`
  const beside = join(dir, `${name}.new`)
  let socket: Server | undefined
  try {
    await makeFolder(dir, 0o700)
    socket = listen(join(dir, `${name}.sock`))
    const text = JSON.stringify({ ...identify(process.pid), namespace, socket: socket && `${name}.sock` })
    try {
      writeNew(join(dir, SPARE), beside, text)
      const path = await acquire(dir, beside, namespace)
      keepSpare(dir, text)
      return { path, text, socket }
    } finally {
      rmSync(beside, { force: true })
    }
  } catch (error) {
    socket?.close()
    if (error instanceof DataDirError) throw error
    const why = `data_dir ${dir} cannot be used: ${errorText(error)}; ${adviceFor(error)}`
    throw new DataDirError('SLUICE_DATA_DIR_UNUSABLE', why, { cause: error })
  }
}

/** Writes a new file. On a full disk, renames and overwrites the spare file. Only one process can get it. */
function writeNew(spare: string, path: string, text: string): void {
  try {
    writeFileSync(path, text, { mode: 0o600 })
  } catch (error) {
    if (!FULL.includes(errorCode(error) ?? '') || !existsSync(spare)) throw error
    renameSync(spare, path)
    writeFileSync(path, text, { flag: 'r+' })
    truncateSync(path, Buffer.byteLength(text))
  }
}

function replaceSpare(dir: string, old: string): void {
  try {
    renameSync(old, join(dir, SPARE))
  } catch {
    // Renaming fails if something else has the name of the spare file, for example a folder.
    unlinkSync(old)
  }
}

function keepSpare(dir: string, text: string): void {
  try {
    writeFileSync(join(dir, SPARE), text, { mode: 0o600, flag: 'wx' })
  } catch {
    // A spare file exists already, or there is no room for one.
  }
}

/**
 * Listens for processes that check whether this process lives. The kernel accepts their connections even while this
 * process is busy.
 */
function listen(path: string): Server | undefined {
  const { short, release } = shortPath(path)
  const server = createServer(connection => connection.destroy())
  server
    .once('close', release)
    .once('error', release)
    .on('error', () => {})
  // Without `exclusive`, a cluster's primary would listen, not this worker. `listening` is set when `listen` returns.
  server.listen({ path: short, exclusive: true }).unref()
  return server.listening ? server : undefined
}

/** Whether the lock is still ours. Also true if that is unknown. */
function has({ path, text }: Taken): boolean {
  try {
    return readFileSync(path, 'utf8') === text
  } catch (error) {
    return !isMissing(error)
  }
}

async function acquire(dir: string, beside: string, namespace: string): Promise<string> {
  for (;;) {
    const numbers = locksIn(dir)
    const highest = numbers.at(-1) ?? 0
    const holder = highest > 0 ? read(join(dir, `lock.${highest}`)) : undefined
    if (holder && (await isAlive(holder, dir, namespace))) {
      const isNear = holder.namespace === namespace
      const where = isNear ? '' : ' of another PID namespace, such as a container'
      throw new DataDirError(
        'SLUICE_DATA_DIR_IN_USE',
        `data_dir ${dir} is in use by another sluice, process ${holder.pid}${where}; stop that process, or configure another data_dir`,
        isNear ? { pid: holder.pid } : {},
      )
    }
    if (highest === HIGHEST) throw new Error(`lock.${highest} has the highest possible number; remove it`)
    const path = join(dir, `lock.${highest + 1}`)
    try {
      linkSync(beside, path)
    } catch (error) {
      if (errorCode(error) === 'EEXIST') continue
      throw error
    }
    if (locksIn(dir).at(-1) !== highest + 1) {
      // Meanwhile, this number was taken and removed again, and a process has taken a higher number.
      unlinkSync(path)
      continue
    }
    for (const number of numbers) replaceSpare(dir, join(dir, `lock.${number}`))
    if (holder?.socket) rmSync(join(dir, holder.socket), { force: true })
    return path
  }
}

/** The numbers of the lock files in ascending order. */
function locksIn(dir: string): number[] {
  return readdirSync(dir)
    .flatMap(name => LOCK.exec(name)?.slice(1, 2).map(Number) ?? [])
    .sort((a, b) => a - b)
}

/** The holder; undefined if the lock was released or removed, or is damaged. Throws StateUnreadable. */
function read(path: string): Holder | undefined {
  let text: string
  try {
    // Reading a FIFO may never end.
    if (!statSync(path).isFile()) throw new Error('it is not a file')
    text = readFileSync(path, 'utf8')
  } catch (error) {
    // A new holder with a higher number removed this file.
    if (errorCode(error) === 'ENOENT') return undefined
    // The lock must not count as released, since a living process may hold it.
    throw new StateUnreadable(path, error)
  }
  try {
    const { pid, started, boot, namespace, socket } = JSON.parse(text) as Partial<Holder>
    const named = socket !== undefined && SOCKET.test(socket) ? socket : undefined
    const isWhole = [started, boot, namespace].every(part => typeof part === 'string')
    if (isWhole && typeof pid === 'number' && pid > 0) {
      return { pid, started: started!, boot: boot!, namespace: namespace!, socket: named }
    }
  } catch {
    // Living processes write complete files, so a damaged file is not from a living process.
  }
  return undefined
}

function release(taken: Taken): void {
  const { path, socket } = taken
  try {
    if (!has(taken)) return
    writeFileSync(`${path}.new`, '{}', { mode: 0o600 })
    renameSync(`${path}.new`, path)
  } catch {
    // If this fails, the lock ends with the process.
    rmSync(`${path}.new`, { force: true })
  } finally {
    socket?.close()
  }
}

async function isAlive(holder: Holder, dir: string, namespace: string): Promise<boolean> {
  const now = identify(holder.pid)
  if (holder.boot !== now.boot) return false
  if (holder.namespace !== namespace) return holder.socket !== undefined && (await answers(join(dir, holder.socket)))
  if (now.started !== '') return now.started === holder.started
  if (holder.started !== '') return false
  // Without /proc, it is only known whether a process with this id exists.
  try {
    process.kill(holder.pid, 0)
    return true
  } catch (error) {
    return errorCode(error) === 'EPERM'
  }
}

/** Whether a process listens on the socket. Also true if that is unknown. */
function answers(path: string): Promise<boolean> {
  const { short, release } = shortPath(path)
  return new Promise<boolean>(resolve => {
    const connection = connect(short, () => resolve(true))
    connection.once('error', error => resolve(!['ECONNREFUSED', 'ENOENT'].includes(errorCode(error) ?? '')))
    connection.once('connect', () => connection.destroy())
  }).finally(release)
}

function identify(pid: number): Pick<Holder, 'pid' | 'started' | 'boot'> {
  return { pid, started: startOf(pid), boot: readText('/proc/sys/kernel/random/boot_id').trim() }
}

/** The PID namespace of this process; empty on systems that have none. */
function ownNamespace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid')
  } catch {
    return ''
  }
}

/**
 * The start time of a process: field 22 of /proc/PID/stat. The fields follow the command name, which may contain any
 * characters. Empty if the process is missing or a zombie, or if /proc is missing.
 */
function startOf(pid: number): string {
  const stat = readText(`/proc/${pid}/stat`)
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields[0] === 'Z' || fields[0] === 'X' ? '' : (fields[19] ?? '')
}

/** The content of a file; empty if it cannot be read. */
function readText(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch (error) {
    // If this error were ignored, a living process would seem to have ended.
    if (lacksDescriptor(error)) throw error
    return ''
  }
}
