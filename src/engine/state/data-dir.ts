import { linkSync, readdirSync, readFileSync, renameSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCode, errorText } from '../../core/errors.js'
import { StateUnreadable } from '../../core/unreadable.js'
import { makeFolderSync } from '../../lib/files/make-folder.js'

/**
 * One daemon per data folder. A lock is a file `lock.N` that says which process took it. The highest N counts; it
 * binds as long as its process lives. Whoever finds it abandoned makes `lock.N+1`: only one can, since a hard link is
 * made only where no file of that name is, and it appears with its content. Lower ones are removed by the holder only.
 * The holder's own file stays when it lets go, so that N never goes back.
 */

export interface DataDirLock {
  release(): void
  /** Takes the folder again if it was removed or replaced: true. Throws DataDirError when that is not possible. */
  renew(): boolean
}

/** Another daemon holds the folder, or it cannot be used. */
export class DataDirError extends Error {
  readonly code: 'SLUICE_DATA_DIR_IN_USE' | 'SLUICE_DATA_DIR_UNUSABLE'
  constructor(code: DataDirError['code'], message: string, cause?: unknown) {
    super(message, { cause })
    this.code = code
  }
}

function adviceFor(error: unknown): string {
  switch (errorCode(error)) {
    case 'ENOSPC':
    case 'EDQUOT':
      return 'free some space on its disk: without it no positions can be saved'
    case 'EROFS':
      return 'mount its file system for writing'
    default:
      return 'it must be a folder that this user may write to'
  }
}

interface Holder {
  readonly pid: number
  /** When the process started, in ticks since the boot: a pid is given away again. */
  readonly started: string
  readonly boot: string
}

const LOCK = /^lock\.(\d{1,15})$/

/** Creates the folder if it is missing, and takes it; throws DataDirError when another living process holds it. */
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
    throw new DataDirError('SLUICE_DATA_DIR_UNUSABLE', why, error)
  }
}

/** Whether the lock is still ours; also where that cannot be found out. */
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
        `data_dir ${dir} is in use by another sluice, process ${holder.pid}; stop that one first, or give this one a data_dir of its own`,
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
      // Ours was taken and let go, and taken on from there, since we looked.
      unlinkSync(path)
      continue
    }
    for (const number of numbers) unlinkSync(join(dir, `lock.${number}`))
    return path
  }
}

/** Their numbers, ascending. */
function locksIn(dir: string): number[] {
  return readdirSync(dir)
    .flatMap(name => LOCK.exec(name)?.slice(1, 2).map(Number) ?? [])
    .sort((a, b) => a - b)
}

/** Undefined when nobody holds it: it was let go, or says nothing that a process wrote. Throws StateUnreadable. */
function read(path: string): Holder | undefined {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    // Removed by a new holder, who has a higher number.
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
    // Damaged: a process that lives has written its own as a whole.
  }
  return undefined
}

function release(path: string): void {
  try {
    writeFileSync(`${path}.new`, '{}', { mode: 0o600 })
    renameSync(`${path}.new`, path)
  } catch {
    // The process ends, and the lock with it.
  }
}

function isAlive(holder: Holder): boolean {
  const now = identify(holder.pid)
  if (now.started !== '') return now.started === holder.started && now.boot === holder.boot
  if (holder.started !== '') return false
  // No /proc on this system: whether there is such a process has to do.
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
 * Field 22 of /proc/PID/stat, behind the command's name, which may hold anything. Empty: no such process, one that
 * has ended and only waits to be noticed, or no /proc.
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
