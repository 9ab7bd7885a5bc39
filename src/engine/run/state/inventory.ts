import { existsSync } from 'node:fs'
import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { errorText, isMissing } from '../../../core/errors.js'
import { type Components, componentsOf } from '../../config/inputs.js'
import type { ComponentConfig, Config } from '../../config/load.js'
import { folderOnDisk } from '../../flow/disk-buffer/files.js'
import { DeadLetterStock, deadLetterFiles, folderOf } from '../dead-letter/stock.js'

/**
 * The data of components in data_dir. Data is orphaned if its component is no longer configured, or is configured
 * without the disk buffer or `persist` that the data belongs to. Orphaned data is reported and kept until a component
 * takes it over (`renamed_from`) or the configuration deletes it (`discard_orphans`).
 */

export type DataKind = 'checkpoint' | 'buckets' | 'buffer' | 'spool' | 'dead_letters'

/** By kind: the folder in data_dir, the suffix after the id in file names, and the data's name in messages. */
const KINDS: Readonly<Record<DataKind, { folder: string; suffix: string; what: string }>> = {
  checkpoint: { folder: 'checkpoints', suffix: '.json', what: 'positions' },
  buckets: { folder: 'throttle', suffix: '', what: 'buckets' },
  buffer: { folder: 'buffer', suffix: '', what: 'buffer' },
  spool: { folder: 'spool', suffix: '', what: 'spool' },
  dead_letters: { folder: 'dead-letter', suffix: '.ndjson', what: 'rejected events' },
}
/** Finds data of which only another part exists: the previous version, or what an interrupted `sluice resend` left. */
const OTHER_PART: Partial<Record<DataKind, RegExp>> = { checkpoint: /\.1$/, dead_letters: /\.sending$/ }
const ALL = Object.keys(KINDS) as DataKind[]

export interface Stored {
  readonly kind: DataKind
  readonly id: string
  readonly path: string
}

export interface Orphan extends Stored {
  /** Undefined for positions and buckets, and if the data cannot be read now. */
  readonly events: number | undefined
  readonly bytes: number
  /** When the data was last written, wall clock in milliseconds. */
  readonly changedAt: number
}

export type OrphanConfig = Components & Pick<Config, 'dataDir' | 'discardOrphans'>

export function pathOf(dataDir: string, kind: DataKind, id: string): string {
  const { folder, suffix } = KINDS[kind]
  return join(dataDir, folder, `${encodeURIComponent(id)}${suffix}`)
}

export const dataName = (kind: DataKind) => KINDS[kind].what

export function kindsOf({ kind, options, onError, delivery, definition }: ComponentConfig): DataKind[] {
  const { persist } = options as { persist?: boolean }
  return ALL.filter(data => {
    if (data === 'checkpoint') return kind === 'source'
    if (data === 'buckets') return kind === 'processor' && persist === true
    if (data === 'buffer') return delivery?.buffer.type === 'disk'
    if (data === 'spool') return definition.spools === true
    return kind === 'destination' || onError === 'dead_letter'
  })
}

/** Lists the data of all components, configured or not. */
export async function inventory(dataDir: string, kinds = ALL, log?: Logger): Promise<Stored[]> {
  const lists = kinds.map(async kind => {
    const { folder, suffix } = KINDS[kind]
    const names = await namesIn(join(dataDir, folder), log)
    const other = OTHER_PART[kind]
    const whole = other ? [...new Set(names.map(name => name.replace(other, '')))] : names
    const own = whole.filter(name => name.length > suffix.length && name.endsWith(suffix))
    return own.map(name => ({
      kind,
      id: name.slice(0, name.length - suffix.length),
      path: join(dataDir, folder, name),
    }))
  })
  return (await Promise.all(lists)).flat()
}

async function namesIn(path: string, log: Logger | undefined): Promise<string[]> {
  try {
    return (await readdir(path)).sort()
  } catch (error) {
    if (!isMissing(error))
      log?.warn({ folder: path, error: errorText(error) }, 'cannot list the folder to find orphaned data')
    return []
  }
}

/** Finds all data in data_dir that belongs to no component. Changes nothing. */
export async function findOrphans(config: OrphanConfig, log: Logger, kinds = ALL): Promise<Orphan[]> {
  const { dataDir } = config
  const used = new Set(componentsOf(config).flatMap(one => kindsOf(one).map(kind => pathOf(dataDir, kind, one.id))))
  const found: Orphan[] = []
  for (const stored of await inventory(dataDir, kinds, log)) {
    const orphan = used.has(stored.path) ? undefined : await measure(stored, log)
    if (orphan) found.push(orphan)
  }
  return found
}

/** Undefined if the data contains nothing. */
async function measure(stored: Stored, log: Logger): Promise<Orphan | undefined> {
  const { kind, path } = stored
  try {
    const files =
      kind === 'dead_letters'
        ? deadLetterFiles(path)
        : kind === 'checkpoint'
          ? partsOf(stored)
          : (await readdir(path)).map(name => join(path, name))
    const stats = await Promise.all(files.map(file => stat(file).catch(() => undefined)))
    const bytes = stats.reduce((sum, found) => sum + (found?.size ?? 0), 0)
    const changedAt = Math.max(...stats.map(found => found?.mtimeMs ?? 0))
    if (bytes === 0) return undefined
    if (kind === 'dead_letters') {
      const stock = new DeadLetterStock(path)
      await stock.refresh()
      return { ...stored, events: stock.events, bytes, changedAt }
    }
    if (kind === 'spool') {
      const { countSpooled } = await import('../../flow/spool/object-file.js')
      const events = await countSpooled(folderOnDisk(path))
      return events > 0 ? { ...stored, events, bytes, changedAt } : undefined
    }
    if (kind !== 'buffer') return { ...stored, events: undefined, bytes, changedAt }
    const { recover } = await import('../../flow/disk-buffer/recovery.js')
    const { unsettled } = await import('../../flow/disk-buffer/segments.js')
    const { settled, end, ahead } = await recover(folderOnDisk(path), log, true)
    const left = unsettled(settled, end, ahead)
    return left.events > 0 ? { ...stored, ...left, changedAt } : undefined
  } catch (error) {
    if (isMissing(error)) return undefined
    // Unreadable data may contain events, so it counts as an orphan and is kept.
    log.warn(
      { path, error: errorText(error) },
      `cannot read the ${dataName(kind)} of a component that is not configured`,
    )
    const changedAt = (await stat(path).catch(() => undefined))?.mtimeMs ?? 0
    return { ...stored, events: undefined, bytes: 0, changedAt }
  }
}

function partsOf({ kind, path }: Stored): string[] {
  if (kind === 'dead_letters') return [path, folderOf(path)]
  return kind === 'checkpoint' ? [path, `${path}.1`] : [path]
}

/** Whether the data still exists. An operator may have removed it. */
export const isThere = (stored: Stored) => partsOf(stored).some(existsSync)

export function adviceFor({ kind, id, path }: Stored): string {
  const orDiscard = `or list ${id} in discard_orphans to delete it.`
  switch (kind) {
    case 'checkpoint':
      return `If the source has another name now, set "renamed_from: ${id}" there, ${orDiscard}`
    case 'buckets':
      return `Its windows are not used. If the throttle has another name now, set "renamed_from: ${id}" there; if "persist: true" was removed, add it again; ${orDiscard}`
    case 'buffer':
      return `Its events are not delivered. If the destination has another name now, set "renamed_from: ${id}" there; if its disk buffer was removed from the configuration, add it again; ${orDiscard}`
    case 'spool':
      return `Its objects are not sent. If the destination has another name now, set "renamed_from: ${id}" there, ${orDiscard}`
    case 'dead_letters':
      return `If the destination has another name now, set "renamed_from: ${id}" there, or send them with "sluice resend --config FILE --destination ID ${path}"; ${orDiscard}`
  }
}

export function reportOrphans(orphans: readonly Orphan[], log: Logger): void {
  for (const orphan of orphans) {
    const { kind, id: component, path, events, bytes } = orphan
    const fields = { kind, component, path, ...(events === undefined ? {} : { events }), bytes }
    log.warn(
      { code: 'SLUICE_ORPHANED', ...fields, advice: adviceFor(orphan) },
      'data_dir contains data of a component that is not configured; the data is kept',
    )
  }
}

/** Deletes the orphans whose ids are in discard_orphans. Returns the remaining orphans. */
export async function discardOrphans(
  orphans: readonly Orphan[],
  { discardOrphans: ids }: Pick<Config, 'discardOrphans'>,
  log: Logger,
): Promise<Orphan[]> {
  const left = orphans.filter(({ id }) => !ids.includes(id))
  for (const orphan of orphans.filter(({ id }) => ids.includes(id))) {
    const { kind, id: component, path, events, bytes } = orphan
    try {
      for (const part of partsOf(orphan)) await rm(part, { recursive: true, force: true })
      log.warn({ kind, component, path, events, bytes }, 'deleted orphaned data listed in discard_orphans')
    } catch (error) {
      left.push(orphan)
      log.error({ kind, component, path, error: errorText(error) }, 'cannot delete orphaned data')
    }
  }
  return left
}
