import { constants } from 'node:fs'
import { join } from 'node:path'
import type { OptionProblem } from '../../../core/component.js'
import { errorCode } from '../../../core/errors.js'
import { type FileSystems, fileSystems } from '../../../lib/files/remote/file-systems.js'
import { closeSync, type Entry, openSync, readdirSync, statSync } from '../../../lib/files/remote/guarded-fs.js'
import { shownPath } from '../../../lib/files/shown-path.js'
import { firstBytes, isCompressed } from '../identity.js'
import { ANY_DEPTH, compileExclude, compileGlobs, matchName, type Segment } from './glob.js'

/** Maximum number of folders read per pattern. A pattern that needs more gets no warning. */
const MAX_FOLDERS = 1000
/** Maximum number of files per pattern whose first bytes are read. */
const MAX_FILES = 1000

type IsExcluded = (path: string, name: string) => boolean

/** Warns of `include` patterns that match a folder, no file, or a compressed one at the moment. */
export function includeWarnings(
  include: readonly string[],
  exclude: readonly string[],
  systems = fileSystems,
): OptionProblem[] {
  return include.flatMap((pattern, i) => {
    const message = warningOf(pattern, exclude, systems)
    return message === undefined ? [] : [{ path: ['include', i], message }]
  })
}

function warningOf(pattern: string, exclude: readonly string[], systems: FileSystems): string | undefined {
  // It is refused separately.
  if (pattern.startsWith('~')) return undefined
  let globs: Segment[][]
  let isExcluded: IsExcluded
  try {
    globs = compileGlobs([pattern])
    isExcluded = compileExclude(exclude)
  } catch {
    return undefined
  }
  const all = globs.map(segments => find(segments, isExcluded, systems))
  const compressed = all.find(one => one.compressed)?.compressed
  if (compressed !== undefined) {
    return `${shownPath(pattern)} matches ${compressed}, which is compressed; such files are skipped, so add them to exclude, such as exclude: ['*.gz']`
  }
  const found = all.map(({ match }) => match)
  if (found.includes('file') || found.includes('unknown')) return undefined
  if (!found.includes('folder')) {
    return `${shownPath(pattern)} matches no file now; files created later are read`
  }
  const files = `${pattern.replace(/\/+$/, '')}/*`
  return `${pattern} is a folder, but only files are read; write ${files} for the files in it`
}

type Match = 'file' | 'folder' | 'nothing' | 'unknown'
const UNKNOWN = { kind: 'unknown', path: '', name: '' } as const

interface Matched {
  /** The best match; unknown: there is no permission, or too much to search. */
  readonly match: Match
  /** The name of a file that is compressed and not excluded. */
  readonly compressed?: string
}

function find(segments: readonly Segment[], isExcluded: IsExcluded, systems: FileSystems): Matched {
  let best: Match = 'nothing'
  let files = 0
  for (const { kind, path, name } of walk(segments, systems)) {
    if (kind !== 'file') {
      if (kind === 'unknown' && best !== 'file') return { match: kind }
      if (best === 'nothing') best = kind
      continue
    }
    best = kind
    if (++files > MAX_FILES) break
    if (!isExcluded(path, name) && isCompressedAt(path)) return { match: kind, compressed: name }
  }
  return { match: best }
}

/** The files and folders that match, up to the first place that cannot be searched. */
function* walk(
  segments: readonly Segment[],
  systems: FileSystems,
): Generator<{ readonly kind: Match; readonly path: string; readonly name: string }> {
  const steps = [{ folder: '/', at: 0 }]
  for (let read = 0, step = steps.pop(); step; step = steps.pop()) {
    const { folder, at } = step
    const segment = segments[at]!
    const isLast = at === segments.length - 1
    // It is unknown whether this mount responds.
    const literal = typeof segment === 'string' ? join(folder, segment) : folder
    if (systems.mountOf(literal) !== undefined) return yield UNKNOWN
    const names: readonly (string | Entry)[] | undefined =
      typeof segment === 'string' ? [segment] : read++ < MAX_FOLDERS ? list(folder) : undefined
    if (!names) return yield UNKNOWN
    if (segment === ANY_DEPTH && !isLast) steps.push({ folder, at: at + 1 })
    for (const entry of names) {
      const name = typeof entry === 'string' ? entry : entry.name
      if (segment === ANY_DEPTH ? name.startsWith('.') : !matchName(segment, name)) continue
      const path = join(folder, name)
      const kind = kindOf(path)
      if (kind === 'unknown') return yield UNKNOWN
      if (kind === 'folder' && segment === ANY_DEPTH) steps.push({ folder: path, at })
      else if (kind === 'folder' && !isLast) steps.push({ folder: path, at: at + 1 })
      else if (kind !== 'nothing' && isLast) yield { kind, path, name }
    }
  }
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

/** False if it cannot be read, which the daemon reports. */
function isCompressedAt(path: string): boolean {
  let fd: number | undefined
  try {
    if (!statSync(path).isFile()) return false
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    return isCompressed(firstBytes(fd))
  } catch {
    return false
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

function isAbsent(error: unknown): boolean {
  const code = errorCode(error)
  return code === 'ENOENT' || code === 'ENOTDIR'
}
