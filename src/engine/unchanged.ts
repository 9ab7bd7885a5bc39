import { createHash } from 'node:crypto'
import type { ComponentConfig, Config } from '../config/load.js'
import { errorCode } from '../core/errors.js'
import { readFileSync, statSync } from '../lib/files/remote/guarded-fs.js'
import { moduleDigest } from '../lib/modules/module-files.js'
import { sameOptions } from './same-options.js'

/** Larger files are compared by their size and time. */
const LARGEST_READ = 64 * 1024 * 1024

/** A configuration, and what its components read from files when it was loaded, by id. */
export interface Loaded {
  readonly config: Config
  readonly files: ReadonlyMap<string, string>
}

const all = ({ sources, processors, destinations }: Config): readonly ComponentConfig[] => [
  ...sources,
  ...processors,
  ...destinations,
]

/** Call it before the components read their files: what changes in between then counts as changed at the next reload. */
export function withFiles(config: Config): Loaded {
  return { config, files: new Map(all(config).map(component => [component.id, filesOf(component)])) }
}

function filesOf({ reads = [], definition, options }: ComponentConfig): string {
  const module = 'module' in definition && (options as Record<string, unknown>)[definition.module!]
  const texts = [...reads.map(fileState), ...(typeof module === 'string' ? [moduleDigest(module)] : [])]
  return texts.join(' ')
}

function fileState(path: string): string {
  try {
    const stats = statSync(path, { bigint: true })
    // Reading a FIFO may never end.
    if (!stats.isFile()) return 'not a file'
    const { size, mtimeNs, ino } = stats
    if (size > LARGEST_READ) return `${size} ${mtimeNs} ${ino}`
    return createHash('sha256').update(readFileSync(path)).digest('hex')
  } catch (error) {
    return errorCode(error) ?? 'unreadable'
  }
}

/** Ids of the components that are the same in both, with their inputs, delivery and the bytes of their files. */
export function unchanged(before: Loaded, next: Loaded): Set<string> {
  const others = new Map(all(next.config).map(component => [component.id, component]))
  const sameLimits = sameOptions(before.config.managed, next.config.managed)
  const same = all(before.config).filter(component => {
    const other = others.get(component.id)
    if (!other || other.definition.plugin !== component.definition.plugin) return false
    if ((component.reach || other.reach) && !sameLimits) return false
    if (before.files.get(component.id) !== next.files.get(component.id)) return false
    return sameOptions(compared(component), compared(other))
  })
  return new Set(same.map(({ id }) => id))
}

/** The options as they were given, where they are kept: parsed ones may have private state. */
const compared = ({ kind, type, inputs, options, given = options, delivery, onError }: ComponentConfig) => ({
  kind,
  type,
  inputs,
  given,
  delivery,
  onError,
})

/** Whether a configuration has the same components as the one before it, so that none needs to be replaced. */
export function isUnchanged(before: Loaded, next: Loaded): boolean {
  const same = unchanged(before, next)
  return same.size === all(before.config).length && same.size === all(next.config).length
}
