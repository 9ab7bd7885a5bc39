import { join } from 'node:path'
import type { OptionWarning } from '../../../core/component.js'
import { errorCode } from '../../../core/errors.js'
import { type FileSystems, fileSystems } from '../../../lib/files/remote/file-systems.js'
import { type Entry, readdirSync, statSync } from '../../../lib/files/remote/guarded-fs.js'
import { shownPath } from '../../../lib/files/shown-path.js'
import { ANY_DEPTH, compileGlobs, matchName, type Segment } from './glob.js'

/** Maximum number of folders read per pattern. A pattern that needs more gets no warning. */
const MAX_FOLDERS = 1000

/** Warns of `include` patterns that match a folder, or no file at the moment. */
export function includeWarnings(include: readonly string[], systems = fileSystems): OptionWarning[] {
  return include.flatMap((pattern, i) => {
    const message = warningOf(pattern, systems)
    return message === undefined ? [] : [{ path: ['include', i], message }]
  })
}

function warningOf(pattern: string, systems: FileSystems): string | undefined {
  // It is refused separately.
  if (pattern.startsWith('~')) return undefined
  let globs: Segment[][]
  try {
    globs = compileGlobs([pattern])
  } catch {
    return undefined
  }
  const found = globs.map(segments => find(segments, systems))
  if (found.includes('file') || found.includes('unknown')) return undefined
  if (!found.includes('folder')) {
    return `${shownPath(pattern)} matches no file now; files created later are read`
  }
  const files = `${pattern.replace(/\/+$/, '')}/*`
  return `${pattern} is a folder, but only files are read; write ${files} for the files in it`
}

type Match = 'file' | 'folder' | 'nothing' | 'unknown'

/** The best match; unknown: there is no permission, or too much to search. */
function find(segments: readonly Segment[], systems: FileSystems): Match {
  const steps = [{ folder: '/', at: 0 }]
  let best: Match = 'nothing'
  for (let read = 0, step = steps.pop(); step; step = steps.pop()) {
    const { folder, at } = step
    const segment = segments[at]!
    const isLast = at === segments.length - 1
    // It is unknown whether this mount responds.
    const literal = typeof segment === 'string' ? join(folder, segment) : folder
    if (systems.mountOf(literal) !== undefined) return 'unknown'
    const names: readonly (string | Entry)[] | undefined =
      typeof segment === 'string' ? [segment] : read++ < MAX_FOLDERS ? list(folder) : undefined
    if (!names) return 'unknown'
    if (segment === ANY_DEPTH && !isLast) steps.push({ folder, at: at + 1 })
    for (const entry of names) {
      const name = typeof entry === 'string' ? entry : entry.name
      if (segment === ANY_DEPTH ? name.startsWith('.') : !matchName(segment, name)) continue
      const kind = kindOf(join(folder, name))
      if (kind === 'unknown') return 'unknown'
      if (kind === 'folder' && segment === ANY_DEPTH) steps.push({ folder: join(folder, name), at })
      else if (kind === 'folder' && !isLast) steps.push({ folder: join(folder, name), at: at + 1 })
      else if (kind === 'file' && isLast) return 'file'
      else if (kind === 'folder' && isLast) best = 'folder'
    }
  }
  return best
}

function list(folder: string): Entry[] | undefined {
  try {
    return readdirSync(folder, { withFileTypes: true })
  } catch (error) {
    return isAbsent(error) ? [] : undefined
  }
}

function kindOf(path: string): Match {
  try {
    return statSync(path).isDirectory() ? 'folder' : 'file'
  } catch (error) {
    return isAbsent(error) ? 'nothing' : 'unknown'
  }
}

function isAbsent(error: unknown): boolean {
  const code = errorCode(error)
  return code === 'ENOENT' || code === 'ENOTDIR'
}
