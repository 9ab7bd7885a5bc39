import { linkSync, readdirSync, readFileSync, renameSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCode, errorText } from '../../core/errors.js'
import { StateUnreadable } from '../../core/unreadable.js'
import { makeFolderSync } from '../../lib/files/make-folder.js'

/**
 * One daemon per data folder. The lock is a file `lock.N` that names the process that took it. The highest N counts,
 * and binds as long as its process lives. A process that finds it abandoned creates `lock.N+1` with a hard link: the
 * link fails if the name exists, so only one process succeeds, and it appears with its content. Only the holder removes
 * lower numbers. Its own file remains after the release, so N never decreases.
 */

export interface DataDirLock {
  release(): void
  /** Takes the folder again, and returns true, if it was removed or replaced. Throws DataDirError if that fails. */
  renew(): boolean
}

/** Another daemon holds the folder, or it cannot be used. */
export class DataDirError extends Error {
  readonly code: 'SLUICE_DATA_DIR_IN_USE' | 'SLUICE_DATA_DIR_UNUSABLE'
  /** The process that holds it. */
  readonly pid: number | undefined
  constructor(code: DataDirError['code'], message: string, { cause, pid }: { cause?: unknown; pid?: number } = {}) {
    super(message, { cause })
    this.code = code
    this.pid = pid
  }
}

function adviceFor(error: unknown): string {
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
  /** Start time of the process in ticks since boot, because pids are reused. */
  readonly started: string
  readonly boot: string
}

const LOCK = /^lock\.(\d{1,15})$/

/** Creates the folder if missing, and locks it; throws DataDirError if another living process holds it. */
export function lockDataDir(dir: string): DataDirLock {
  const mine = JSON.stringify(identify(process.pid))
  let path = take(dir, mine)
  let held = true
  return {
    release: () => {
      if (!held) return
      held = false
      release(path)
    },
    renew: () => {
      if (!held || has(path, mine)) return false
      path = take(dir, mine)
      return true
    },
  }
}

/** Returns the path of the lock. */
function take(dir: string, mine: string): string {
  const beside = join(dir, `lock-${process.pid}.new`)
  try {
    makeFolderSync(dir, 0o700)
    writeFileSync(beside, mine, { mode: 0o600 })
    try {
      return acquire(dir, beside)
    } finally {
      unlinkSync(beside)
    }
  } catch (error) {
    if (error instanceof DataDirError) throw error
    const why = `data_dir ${dir} cannot be used: ${errorText(error)}; ${adviceFor(error)}`
    throw new DataDirError('SLUICE_DATA_DIR_UNUSABLE', why, { cause: error })
  }
}

/** Whether the lock is still ours; also true if that cannot be determined. */
function has(path: string, mine: string): boolean {
  try {
    return readFileSync(path, 'utf8') === mine
  } catch (error) {
    return !['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '')
  }
}

function acquire(dir: string, beside: string): string {
  for (;;) {
    const numbers = locksIn(dir)
    const highest = numbers.at(-1) ?? 0
    const holder = highest > 0 ? read(join(dir, `lock.${highest}`)) : undefined
    if (holder && isAlive(holder)) {
      throw new DataDirError(
        'SLUICE_DATA_DIR_IN_USE',
        `data_dir ${dir} is in use by another sluice, process ${holder.pid}; stop that process, or configure another data_dir`,
        { pid: holder.pid },
      )
    }
    const path = join(dir, `lock.${highest + 1}`)
    try {
      linkSync(beside, path)
    } catch (error) {
      if (errorCode(error) === 'EEXIST') continue
      throw error
    }
    if (locksIn(dir).at(-1) !== highest + 1) {
      // In the meantime our number was taken and released, and a later one taken.
      unlinkSync(path)
      continue
    }
    for (const number of numbers) unlinkSync(join(dir, `lock.${number}`))
    return path
  }
}

/** The numbers of the lock files, ascending. */
function locksIn(dir: string): number[] {
  return readdirSync(dir)
    .flatMap(name => LOCK.exec(name)?.slice(1, 2).map(Number) ?? [])
    .sort((a, b) => a - b)
}

/** The holder; undefined if the lock was released or contains nothing that a process wrote. Throws StateUnreadable. */
function read(path: string): Holder | undefined {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    // Removed by a new holder with a higher number.
    if (errorCode(error) === 'ENOENT') return undefined
    // A living process may hold it.
    throw new StateUnreadable(path, error)
  }
  try {
    const { pid, started, boot } = JSON.parse(text) as Partial<Holder>
    if (typeof pid === 'number' && pid > 0 && typeof started === 'string' && typeof boot === 'string') {
      return { pid, started, boot }
    }
  } catch {
    // Damaged: a living process has written its own completely.
  }
  return undefined
}

function release(path: string): void {
  try {
    writeFileSync(`${path}.new`, '{}', { mode: 0o600 })
    renameSync(`${path}.new`, path)
  } catch {
    // The lock ends with the process.
  }
}

function isAlive(holder: Holder): boolean {
  const now = identify(holder.pid)
  if (now.started !== '') return now.started === holder.started && now.boot === holder.boot
  if (holder.started !== '') return false
  // Without /proc, only the existence of the process can be checked.
  try {
    process.kill(holder.pid, 0)
    return true
  } catch (error) {
    return errorCode(error) === 'EPERM'
  }
}

function identify(pid: number): Holder {
  return { pid, started: startOf(pid), boot: readText('/proc/sys/kernel/random/boot_id').trim() }
}

/**
 * Field 22 of /proc/PID/stat, after the command name, which may contain any characters. Empty if there is no such
 * process, it is a zombie, or there is no /proc.
 */
function startOf(pid: number): string {
  const stat = readText(`/proc/${pid}/stat`)
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields[0] === 'Z' || fields[0] === 'X' ? '' : (fields[19] ?? '')
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
