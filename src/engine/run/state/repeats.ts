import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ConfigError, type Problem } from '../../../core/errors.js'
import type { Config } from '../../config/load.js'
import { checkpointPath } from './checkpoints.js'
import { checkpointsIn, type OrphanConfig } from './orphans.js'

/**
 * Finds sources that would read again what a source that is no longer configured has read; most likely it was renamed.
 * They would deliver everything twice or, with `read_from: end`, skip undelivered events.
 */
export function findRepeats({ dataDir, sources, discardOrphans }: OrphanConfig): Problem[] {
  const configured = new Set(sources.flatMap(({ id, renamedFrom }) => [id, ...(renamedFrom ? [renamedFrom] : [])]))
  const orphans = [...checkpointsIn(namesIn(dataDir), join(dataDir, 'checkpoints'))].filter(
    ([id]) => !configured.has(id) && !discardOrphans.includes(id),
  )
  return sources.flatMap(({ id, renamedFrom, definition, options, place }) => {
    if (!definition.overlaps || [id, renamedFrom].some(own => own !== undefined && hasCheckpoint(dataDir, own)))
      return []
    return orphans.flatMap(([other, path]) => {
      const [first, ...more] = definition.overlaps!(options, documentIn(path))
      if (first === undefined) return []
      const what = more.length > 0 ? `${first} and ${more.length} more` : first
      const message = `would read ${what} from the beginning: the source ${other}, which has read it, is no longer configured. Set "renamed_from: ${other}" to continue where it left off, or list ${other} in discard_orphans to start from the beginning`
      return [{ file: '', line: 1, column: 1, ...place, path: `sources.${id}`, message }]
    })
  })
}

/** Throws ConfigError if `findRepeats` finds any. */
export function refuseRepeats(config: Config): void {
  const problems = findRepeats(config)
  if (problems.length > 0) throw new ConfigError(problems)
}

function hasCheckpoint(dataDir: string, id: string): boolean {
  const path = checkpointPath(dataDir, id)
  return existsSync(path) || existsSync(`${path}.1`)
}

function namesIn(dataDir: string): string[] {
  try {
    return readdirSync(join(dataDir, 'checkpoints'))
  } catch {
    return []
  }
}

/** The saved positions; undefined if they cannot be read. */
function documentIn(path: string): unknown {
  for (const file of [path, `${path}.1`]) {
    try {
      return JSON.parse(readFileSync(file, 'utf8').split('\n')[1] ?? '')
    } catch {
      // Missing or damaged: the previous file may be intact.
    }
  }
  return undefined
}
