import { createHash } from 'node:crypto'
import { errorCode } from '../../core/errors.js'
import { readFileSync, statSync } from '../../lib/files/disk/disk.js'
import { moduleDigest } from '../../lib/modules/module-files.js'
import { componentsOf } from '../config/inputs.js'
import type { ComponentConfig, Config } from '../config/load.js'

/** Larger files are compared by size and time, not by content. */
const LARGEST_READ = 64 * 1024 * 1024

/** A configuration. `files`: by component id, the state of the component's files when the configuration was loaded. */
export interface Loaded {
  readonly config: Config
  readonly files: ReadonlyMap<string, string>
}

/** Call it before components read their files, so that the next reload notices any later change of these files. */
export function withFiles(config: Config): Loaded {
  return { config, files: new Map(componentsOf(config).map(component => [component.id, filesOf(component)])) }
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
