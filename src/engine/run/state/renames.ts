import { existsSync } from 'node:fs'
import { link, readdir, rename, rm, stat, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Logger } from 'pino'
import type { Kind } from '../../../core/component.js'
import { errorCode, errorText } from '../../../core/errors.js'
import { syncFolder } from '../../../lib/files/atomic-file.js'
import { inTurn } from '../../../lib/files/in-turn.js'
import type { Config } from '../../config/load.js'
import { folderOnDisk } from '../../flow/disk-buffer/files.js'
import { bufferFolder } from '../../flow/disk-buffer/folder.js'
import { deadLetterPath } from '../dead-letter.js'
import { checkpointPath } from './checkpoints.js'
import { stateOf } from './state-folder.js'

/**
 * Moves the data of a renamed component to its new id (`renamed_from`). Invariants: existing data of the new id is
 * never replaced. Each step can be repeated, so a crash costs nothing. Data that cannot be moved stays in place and is
 * reported as orphaned.
 */

export interface Rename {
  readonly kind: Kind
  readonly from: string
  readonly to: string
  /** Whether the renamed component has a disk buffer. */
  readonly buffered: boolean
}

type Components = Pick<Config, 'sources' | 'processors' | 'destinations'>

const allOf = ({ sources, processors, destinations }: Components) => [...sources, ...processors, ...destinations]

export function renamesOf(components: Components): Rename[] {
  return allOf(components).flatMap(({ id, kind, renamedFrom, delivery }) =>
    renamedFrom === undefined ? [] : [{ kind, from: renamedFrom, to: id, buffered: delivery?.buffer.type === 'disk' }],
  )
}

/** Reverses the renames of `failed` for `config`, which runs again instead. */
export function renamesBack(failed: Components, config: Components): Rename[] {
  const all = allOf(config)
  return renamesOf(failed).flatMap(({ kind, from, to }) => {
    const old = all.find(({ id }) => id === from)
    if (!old || all.some(({ id }) => id === to)) return []
    return [{ kind, from: to, to: from, buffered: old.delivery?.buffer.type === 'disk' }]
  })
}

/** Moves the data of all renames. None of these components may be running. */
export async function carryOver(dataDir: string, renames: readonly Rename[], log: Logger): Promise<void> {
  for (const { kind, from, to, buffered } of renames) {
    const step = async (what: string, work: () => Promise<boolean>) => {
      try {
        if (await work()) log.info({ component: to, renamed_from: from }, `${what} of the renamed component taken over`)
      } catch (error) {
        log.error(
          { code: 'SLUICE_NOT_CARRIED_OVER', component: to, renamed_from: from, error: errorText(error) },
          `cannot take over the ${what} of the renamed component; retrying at the next start or reload`,
        )
      }
    }
    if (kind === 'source')
      await step('positions', () => carryPositions(checkpointPath(dataDir, from), checkpointPath(dataDir, to)))
    else {
      if (kind === 'processor') await step('buckets', () => carryBuckets(stateOf(dataDir, from), stateOf(dataDir, to)))
      if (buffered) await step('buffer', () => carryBuffer(bufferFolder(dataDir, from), bufferFolder(dataDir, to), log))
      await step('dead letters', () => carryDeadLetters(deadLetterPath(dataDir, from), deadLetterPath(dataDir, to)))
    }
  }
}

async function carryPositions(old: string, own: string): Promise<boolean> {
  if (existsSync(own)) return false
  // The previous file moves first: while `old` exists, the move is incomplete.
  const before = await renamed(`${old}.1`, `${own}.1`)
  const carried = (await renamed(old, own)) || before
  if (carried) await syncFolder(dirname(own))
  return carried
}

async function carryBuckets(old: string, own: string): Promise<boolean> {
  if (existsSync(own)) return false
  const carried = await renamed(old, own)
  if (carried) await syncFolder(dirname(own))
  return carried
}

async function carryBuffer(old: string, own: string, log: Logger): Promise<boolean> {
  if (!existsSync(old)) return false
  if (existsSync(own)) {
    // Its events must be delivered first; then the other buffer is taken over.
    const { recover } = await import('../../flow/disk-buffer/recovery.js')
    const { segmentNumber } = await import('../../flow/disk-buffer/segments.js')
    const { settled, end } = await recover(folderOnDisk(own), log, true)
    const others = (await readdir(own)).filter(name => segmentNumber(name) === undefined && !/^ledger\b/.test(name))
    if (end.event > settled.event || others.length > 0) return false
    await rm(own, { recursive: true })
  }
  const carried = await renamed(old, own)
  await syncFolder(dirname(own))
  return carried
}

async function carryDeadLetters(old: string, own: string): Promise<boolean> {
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

/** Returns whether the file existed. */
async function renamed(from: string, to: string): Promise<boolean> {
  try {
    await rename(from, to)
    return true
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return false
    throw error
  }
}
