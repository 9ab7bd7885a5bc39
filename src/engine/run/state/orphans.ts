import { createReadStream, existsSync } from 'node:fs'
import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { errorCode, errorText } from '../../../core/errors.js'
import type { Config } from '../../config/load.js'
import { folderOnDisk } from '../../flow/disk-buffer/files.js'
import { STATE } from './state-folder.js'

/**
 * Data in data_dir without a configured component: left by a component that was renamed or removed, or that lost its
 * disk buffer or `persist`. It is reported and kept until a component takes it over (`renamed_from`) or the configuration
 * deletes it (`discard_orphans`).
 */

export type OrphanKind = 'checkpoint' | 'buckets' | 'buffer' | 'dead_letters'

export interface Orphan {
  readonly kind: OrphanKind
  /** Id of the component that it belonged to. */
  readonly id: string
  readonly path: string
  /** Undefined for positions and buckets, and for a buffer that cannot be read now. */
  readonly events: number | undefined
  readonly bytes: number
  /** When it was last written, wall clock in milliseconds. */
  readonly changedAt: number
}

export type OrphanConfig = Pick<Config, 'dataDir' | 'sources' | 'processors' | 'destinations' | 'discardOrphans'>

const NOT_FOUND: readonly (string | undefined)[] = ['ENOENT', 'ENOTDIR']
const LF = 0x0a

/** Advice for the operator. */
export function adviceFor({ kind, id, path }: Pick<Orphan, 'kind' | 'id' | 'path'>): string {
  const orDiscard = `or list ${id} in discard_orphans to delete it.`
  switch (kind) {
    case 'checkpoint':
      return `If the source has another name now, set "renamed_from: ${id}" there, ${orDiscard}`
    case 'buckets':
      return `Its windows are not used. If the throttle has another name now, set "renamed_from: ${id}" there; if it lost "persist: true", give it back; ${orDiscard}`
    case 'buffer':
      return `Its events are not delivered. If the destination has another name now, set "renamed_from: ${id}" there; if it lost its disk buffer, give it back; ${orDiscard}`
    case 'dead_letters':
      return `If the destination has another name now, set "renamed_from: ${id}" there, or send them with "sluice resend --config FILE --destination ID ${path}"; ${orDiscard}`
  }
}

/** Finds all data in data_dir without a component. Changes nothing. */
export async function findOrphans(config: OrphanConfig, log: Logger): Promise<Orphan[]> {
  const sources = new Set(config.sources.map(({ id }) => id))
  const keepers = [...config.destinations, ...config.processors.filter(({ onError }) => onError === 'dead_letter')]
  const keeping = new Set(keepers.map(({ id }) => id))
  const buffered = config.destinations.filter(({ delivery }) => delivery?.buffer.type === 'disk')
  const inUse = new Set(buffered.map(({ id }) => id))
  const folder = (name: string) => join(config.dataDir, name)
  const found: Orphan[] = []
  for (const [id, path] of checkpointsIn(await namesIn(folder('checkpoints'), log), folder('checkpoints')))
    if (!sources.has(id)) found.push({ kind: 'checkpoint', id, path, events: undefined, ...(await sizeOf(path)) })
  const persisting = new Set(config.processors.filter(({ options }) => isPersisting(options)).map(({ id }) => id))
  for (const name of await namesIn(folder(STATE), log)) {
    const id = idOf(name)
    const orphan = persisting.has(id) ? undefined : await bucketsIn(join(folder(STATE), name), id, log)
    if (orphan) found.push(orphan)
  }
  for (const name of await namesIn(folder('buffer'), log)) {
    const id = idOf(name)
    const orphan = inUse.has(id) ? undefined : await bufferIn(join(folder('buffer'), name), id, log)
    if (orphan) found.push(orphan)
  }
  for (const name of await namesIn(folder('dead-letter'), log)) {
    const [, encoded] = /^(.+)\.ndjson$/.exec(name) ?? []
    if (encoded === undefined || keeping.has(idOf(encoded))) continue
    const path = join(folder('dead-letter'), name)
    const { bytes, changedAt } = await sizeOf(path)
    if (bytes > 0)
      found.push({ kind: 'dead_letters', id: idOf(encoded), path, events: await linesIn(path), bytes, changedAt })
  }
  return found
}

const isPersisting = (options: unknown) => (options as { persist?: boolean }).persist === true

/** Logs each orphan with advice. */
export function reportOrphans(orphans: readonly Orphan[], log: Logger): void {
  for (const orphan of orphans) {
    const { kind, id, path, events, bytes } = orphan
    const fields = {
      code: 'SLUICE_ORPHANED',
      kind,
      component: id,
      path,
      ...(events === undefined ? {} : { events }),
      bytes,
    }
    log.warn(
      { ...fields, advice: adviceFor(orphan) },
      'data_dir contains data of a component that is not configured; it is kept',
    )
  }
}

/** Deletes the data of the ids listed in discard_orphans. Returns what remains. */
export async function discardOrphans(
  orphans: readonly Orphan[],
  { discardOrphans: ids }: Pick<Config, 'discardOrphans'>,
  log: Logger,
): Promise<Orphan[]> {
  const left: Orphan[] = []
  for (const orphan of orphans) {
    const { kind, id, path, events, bytes } = orphan
    if (!ids.includes(id)) {
      left.push(orphan)
      continue
    }
    try {
      for (const part of kind === 'checkpoint' ? [path, `${path}.1`] : [path])
        await rm(part, { recursive: true, force: true })
      log.warn({ kind, component: id, path, events, bytes }, 'deleted orphaned data listed in discard_orphans')
    } catch (error) {
      left.push(orphan)
      log.error({ kind, component: id, path, error: errorText(error) }, 'cannot delete orphaned data')
    }
  }
  return left
}

/** Ids of sources with saved positions, with the file of each. */
export function checkpointsIn(names: readonly string[], folder: string): Map<string, string> {
  const found = new Map<string, string>()
  for (const name of names) {
    const [, encoded] = /^(.+)\.json(?:\.1)?$/.exec(name) ?? []
    if (encoded !== undefined) found.set(idOf(encoded), join(folder, `${encoded}.json`))
  }
  return found
}

/** Undefined for a file or an empty folder: neither holds buckets. */
async function bucketsIn(path: string, id: string, log: Logger): Promise<Orphan | undefined> {
  try {
    const size = await folderSize(path)
    return size && { kind: 'buckets', id, path, events: undefined, ...size }
  } catch (error) {
    if (NOT_FOUND.includes(errorCode(error))) return undefined
    log.warn({ folder: path, error: errorText(error) }, 'cannot read the saved buckets of a missing throttle')
    return { kind: 'buckets', id, path, events: undefined, ...(await sizeOf(path)), bytes: 0 }
  }
}

async function bufferIn(path: string, id: string, log: Logger): Promise<Orphan | undefined> {
  try {
    if (!(await stat(path)).isDirectory()) return undefined
    const { recover, unsettled } = await import('../../flow/disk-buffer/recovery.js')
    const { settled, end, ahead } = await recover(folderOnDisk(path), log, true)
    const { events, bytes } = unsettled(settled, end, ahead)
    if (events === 0) return undefined
    const size = await folderSize(path)
    return size && { kind: 'buffer', id, path, events, bytes, changedAt: size.changedAt }
  } catch (error) {
    if (NOT_FOUND.includes(errorCode(error))) return undefined
    // A buffer that cannot be read may hold events.
    log.warn({ folder: path, error: errorText(error) }, 'cannot read a buffer without a destination')
    return { kind: 'buffer', id, path, events: undefined, ...(await sizeOf(path)), bytes: 0 }
  }
}

/** Size of the files in a folder, and when the last of them was written; undefined if it is empty. */
async function folderSize(path: string): Promise<{ bytes: number; changedAt: number } | undefined> {
  const parts = await Promise.all((await readdir(path)).map(name => sizeOf(join(path, name))))
  if (parts.length === 0) return undefined
  const bytes = parts.reduce((sum, part) => sum + part.bytes, 0)
  return { bytes, changedAt: Math.max(...parts.map(part => part.changedAt)) }
}

/** Size and time of a file or, if it is missing, of the previous version. */
async function sizeOf(path: string): Promise<{ bytes: number; changedAt: number }> {
  const found = await stat(path).catch(() => stat(`${path}.1`).catch(() => undefined))
  return { bytes: found?.size ?? 0, changedAt: found?.mtimeMs ?? 0 }
}

async function linesIn(path: string): Promise<number> {
  let lines = 0
  try {
    for await (const part of createReadStream(path) as AsyncIterable<Buffer>)
      for (let at = part.indexOf(LF); at >= 0; at = part.indexOf(LF, at + 1)) lines++
  } catch {
    // Count as much as could be read.
  }
  return lines
}

async function namesIn(path: string, log: Logger): Promise<string[]> {
  try {
    return (await readdir(path)).sort()
  } catch (error) {
    if (!NOT_FOUND.includes(errorCode(error)))
      log.warn({ folder: path, error: errorText(error) }, 'cannot list the folder to find orphaned data')
    return []
  }
}

function idOf(encoded: string): string {
  try {
    return decodeURIComponent(encoded)
  } catch {
    return encoded
  }
}

/** The orphans that still exist: an operator may have removed some. */
export function stillThere(orphans: readonly Orphan[]): Orphan[] {
  return orphans.filter(({ path }) => existsSync(path) || existsSync(`${path}.1`))
}
