import { existsSync } from 'node:fs'
import { link, readdir, rename, rm, stat, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Logger } from 'pino'
import { errorCode, errorText } from '../../../core/errors.js'
import { syncFolder } from '../../../lib/files/atomic-file.js'
import { inTurn } from '../../../lib/turns.js'
import { type Components, componentsOf } from '../../config/inputs.js'
import { folderOnDisk } from '../../flow/disk-buffer/files.js'
import { holdsNothing } from '../../flow/spool/object-file.js'
import { folderOf } from '../dead-letter/stock.js'
import { lockDataDir } from './data-dir.js'
import { type DataKind, dataName, kindsOf, pathOf } from './inventory.js'

/**
 * Moves the data of a renamed component (`renamed_from`) to its new id. Never replaces data of the new id. A crash
 * loses nothing, because each step can be repeated. Data that cannot be moved stays under the old id, as orphaned.
 */

export interface Rename {
  readonly kind: DataKind
  readonly from: string
  readonly to: string
}

export function renamesOf(components: Components): Rename[] {
  return componentsOf(components).flatMap(component => {
    const { id: to, renamedFrom: from } = component
    return from === undefined ? [] : kindsOf(component).map(kind => ({ kind, from, to }))
  })
}

/** The renames that undo `failed`, to apply before `config` runs again. */
export function renamesBack(failed: Components, config: Components): Rename[] {
  const ids = new Set(componentsOf(config).map(({ id }) => id))
  return renamesOf(failed).flatMap(({ kind, from, to }) =>
    ids.has(from) && !ids.has(to) ? [{ kind, from: to, to: from }] : [],
  )
}

/** Moves the data of all renames. The renamed components must not be running. */
export async function carryOver(dataDir: string, renames: readonly Rename[], log: Logger): Promise<void> {
  for (const { kind, from, to } of renames) {
    const [old, own] = [pathOf(dataDir, kind, from), pathOf(dataDir, kind, to)]
    const fields = { component: to, renamed_from: from }
    try {
      if (kind === 'buffer' && existsSync(old)) await removeDelivered(own, log)
      if (kind === 'spool' && existsSync(old) && (await holdsNothing(folderOnDisk(own))))
        await rm(own, { recursive: true, force: true })
      if (await (kind === 'dead_letters' ? moveAllLetters(dataDir, from, to) : move(old, own)))
        log.info(fields, `took over the ${dataName(kind)} of the renamed component`)
    } catch (error) {
      log.error(
        { code: 'SLUICE_NOT_CARRIED_OVER', ...fields, error: errorText(error) },
        `cannot take over the ${dataName(kind)} of the renamed component; retrying at the next start or reload`,
      )
    }
  }
}

async function move(old: string, own: string): Promise<boolean> {
  if (existsSync(own)) return false
  // Moves the previous version (`.1`) first, so that `old` exists until the move is complete.
  const before = await renamed(`${old}.1`, `${own}.1`)
  const moved = (await renamed(old, own)) || before
  if (moved) await syncFolder(dirname(own))
  return moved
}

/** Removes a buffer whose events were all delivered, to make room for the buffer that is renamed to `path`. */
async function removeDelivered(path: string, log: Logger): Promise<void> {
  if (!existsSync(path)) return
  const { recover } = await import('../../flow/disk-buffer/recovery.js')
  const { segmentNumber } = await import('../../flow/disk-buffer/segments.js')
  const { segments, settled, end } = await recover(folderOnDisk(path), log, true)
  const isRead = (name: string) => {
    const number = segmentNumber(name)
    if (number === undefined) return /^ledger\b/.test(name)
    return number < settled.segment || segments.from(number)?.number === number
  }
  // Other files, and segments that cannot be read now, may have events.
  const others = (await readdir(path)).filter(name => !isRead(name))
  if (end.event === settled.event && others.length === 0) await rm(path, { recursive: true })
}

async function moveAllLetters(dataDir: string, from: string, to: string): Promise<boolean> {
  const [old, own] = [pathOf(dataDir, 'dead_letters', from), pathOf(dataDir, 'dead_letters', to)]
  const moved = await moveLetters(old, own)
  return (await moveSending(folderOf(old), folderOf(own), from, to)) || moved
}

/** Moves the folder that an interrupted `sluice resend` left. Throws DataDirError if a `sluice resend` uses it now. */
async function moveSending(old: string, own: string, from: string, to: string): Promise<boolean> {
  if (!existsSync(old) || existsSync(own)) return false
  const lock = await lockDataDir(old)
  try {
    for (const kind of ['dead_letters', 'spool'] as const) {
      const inner = pathOf(old, kind, from)
      if (existsSync(inner) && !(await move(inner, pathOf(old, kind, to)))) return false
    }
  } finally {
    // At the new path, nothing could release the lock.
    lock.release()
  }
  await rename(old, own)
  await syncFolder(dirname(own))
  return true
}

async function moveLetters(old: string, own: string): Promise<boolean> {
  if (!existsSync(old)) return false
  return await inTurn(old, () =>
    inTurn(own, async () => {
      try {
        await link(old, own)
      } catch (error) {
        if (errorCode(error) !== 'EEXIST') throw error
        const [a, b] = [await stat(old), await stat(own)]
        if (a.ino !== b.ino || a.dev !== b.dev) return false
      }
      await syncFolder(dirname(own))
      await unlink(old)
      return true
    }),
  )
}

/** Renames a file. Returns whether the file existed. */
async function renamed(from: string, to: string): Promise<boolean> {
  try {
    await rename(from, to)
    return true
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return false
    throw error
  }
}
