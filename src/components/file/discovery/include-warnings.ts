import { join } from 'node:path'
import type { FilesThere, OptionProblem } from '../../../core/component.js'
import { errorCode, isMissing } from '../../../core/errors.js'
import { closeSync, type FolderEntry, openToRead, readdirSync, statSync } from '../../../lib/files/disk/disk.js'
import { type FileSystems, fileSystems } from '../../../lib/files/disk/file-systems.js'
import { shownPath } from '../../../lib/files/shown-path.js'
import { type Format, formatOf, isReadable, isWide } from '../compression.js'
import { firstBytes } from '../identity.js'
import type { FileOptions } from '../options.js'
import { ANY_DEPTH, compileExclude, compileGlobs, type GlobSegment, matchName } from './glob.js'

/** Maximum number of folders that are read for one pattern. If a pattern needs more folders, it gets no warning. */
const MAX_FOLDERS = 1000
/** Per pattern: maximum files whose first bytes are read. */
const MAX_FILES = 1000

type IsExcluded = (path: string, name: string) => boolean

/**
 * Warns of `include` patterns that now match nothing or only folders. Also warns if a matching file cannot be read or
 * has a format that is not read.
 */
export function includeWarnings(
  include: readonly string[],
  exclude: readonly string[],
  systems = fileSystems,
): OptionProblem[] {
  return include.flatMap((pattern, i) => {
    const warning = warningOf(pattern, exclude, systems)
    return warning === undefined
      ? []
      : [{ path: ['include', i], ...(typeof warning === 'string' ? { message: warning } : warning) }]
  })
}

function warningOf(
  pattern: string,
  exclude: readonly string[],
  systems: FileSystems,
): string | Pick<OptionProblem, 'message' | 'unusable'> | undefined {
  // Such a pattern is refused elsewhere.
  if (pattern.startsWith('~')) return undefined
  let globs: GlobSegment[][]
  let isExcluded: IsExcluded
  try {
    globs = compileGlobs([pattern])
    isExcluded = compileExclude(exclude)
  } catch {
    return undefined
  }
  const all = globs.map(segments => find(segments, isExcluded, systems))
  const unknown = all.find(one => one.unknown)?.unknown
  if (unknown !== undefined) {
    const { name, format } = unknown
    if (isWide(format))
      return `${shownPath(pattern)} matches ${name}, which is in ${format} and is not read; write it in UTF-8`
    return `${shownPath(pattern)} matches ${name}, which is compressed with ${format}; files of this format are skipped; add them to exclude, as in exclude: ['*.xz']`
  }
  const refused = all.find(one => one.refused)?.refused
  if (refused !== undefined) {
    const { path, code } = refused
    const message = `${shownPath(pattern)}: this user cannot read ${shownPath(path)} (${code}); check that the user of the daemon has access`
    return { message, unusable: path }
  }
  const found = all.map(({ match }) => match)
  if (found.includes('file') || found.includes('unknown')) return undefined
  if (!found.includes('folder')) {
    return `${shownPath(pattern)} matches no file now; files created later are read`
  }
  const files = `${pattern.replace(/\/+$/, '')}/*`
  return `${pattern} is a folder, but only files are read; write ${files} for the files in it`
}

/** The files that a first start would read. Undefined if no such file exists, or if all are empty. */
export function filesThere({ include, exclude, read_from }: FileOptions): FilesThere | undefined {
  if (read_from === 'end') return undefined
  const isExcluded = compileExclude(exclude)
  const found = new Map<string, number>()
  let mayBeMore = false
  for (const { kind, path, name } of matchesOf(include)) {
    mayBeMore ||= kind === 'unknown' || found.size >= MAX_FILES
    if (mayBeMore) break
    if (kind === 'file' && !isExcluded(path, name) && unreadOf(path) === undefined)
      found.set(path, statSync(path, { throwIfNoEntry: false })?.size ?? 0)
  }
  const bytes = [...found.values()].reduce((sum, size) => sum + size, 0)
  return bytes === 0 ? undefined : { files: found.size, bytes, mayBeMore }
}

/** The files and folders that match `include`; of each pattern, up to the first place that cannot be searched. */
export function* matchesOf(include: readonly string[]): Generator<Place> {
  for (const segments of compileGlobs(include)) yield* walk(segments, fileSystems)
}

type Match = 'file' | 'folder' | 'nothing' | 'unknown'

interface Place {
  readonly kind: Match
  readonly path: string
  readonly name: string
  readonly error?: unknown
}

const UNKNOWN: Place = { kind: 'unknown', path: '', name: '' }

interface Matched {
  /** The best match. `unknown`: a permission is missing, or the search would need too many folders. */
  readonly match: Match
  /** A file whose format is not read, although the file is not excluded. */
  readonly unknown?: { readonly name: string; readonly format: Format }
  readonly refused?: { readonly path: string; readonly code: string }
}

function find(segments: readonly GlobSegment[], isExcluded: IsExcluded, systems: FileSystems): Matched {
  let best: Match = 'nothing'
  let files = 0
  for (const { kind, path, name, error } of walk(segments, systems)) {
    if (kind !== 'file') {
      if (isRefused(error)) return { match: kind, refused: { path, code: error.code } }
      if (kind === 'unknown' && best !== 'file') return { match: kind }
      if (best === 'nothing') best = kind
      continue
    }
    best = kind
    if (++files > MAX_FILES) break
    if (isExcluded(path, name)) continue
    const why = unreadOf(path)
    if (isRefused(why)) return { match: kind, refused: { path, code: why.code } }
    if (typeof why === 'string') return { match: kind, unknown: { name, format: why } }
  }
  return { match: best }
}

/** The files and folders that match, up to the first place that cannot be searched. */
function* walk(segments: readonly GlobSegment[], systems: FileSystems): Generator<Place> {
  const steps = [{ folder: '/', at: 0 }]
  for (let read = 0, step = steps.pop(); step; step = steps.pop()) {
    const { folder, at } = step
    const segment = segments[at]!
    const isLast = at === segments.length - 1
    // It is unknown whether this mount responds.
    const literal = typeof segment === 'string' ? join(folder, segment) : folder
    if (systems.mountOf(literal) !== undefined) return yield UNKNOWN
    if (typeof segment !== 'string' && read++ >= MAX_FOLDERS) return yield UNKNOWN
    let path = folder
    try {
      const names = typeof segment === 'string' ? [segment] : list(folder)
      if (segment === ANY_DEPTH && !isLast) steps.push({ folder, at: at + 1 })
      for (const entry of names) {
        const name = typeof entry === 'string' ? entry : entry.name
        if (segment === ANY_DEPTH ? name.startsWith('.') : !matchName(segment, name)) continue
        path = join(folder, name)
        if (segment === ANY_DEPTH) {
          // As in a sweep, links are not followed here, because they may form a loop.
          if (typeof entry !== 'string' && entry.isDirectory()) steps.push({ folder: path, at })
          if (!isLast) continue
        }
        const kind = kindOf(path)
        if (kind === 'folder' && !isLast) steps.push({ folder: path, at: at + 1 })
        else if (kind !== 'nothing' && isLast) yield { kind, path, name }
      }
    } catch (error) {
      return yield { ...UNKNOWN, path, error }
    }
  }
}

function list(folder: string): FolderEntry[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}

function kindOf(path: string): Match {
  try {
    const stat = statSync(path)
    return stat.isDirectory() ? 'folder' : stat.isFile() ? 'file' : 'nothing'
  } catch (error) {
    if (isMissing(error)) return 'nothing'
    throw error
  }
}

/** The reason why a file is not read: its format, or the error of opening it. Undefined if the file is read. */
function unreadOf(path: string): Format | Error | undefined {
  let fd: number | undefined
  try {
    fd = openToRead(path)
    const format = formatOf(firstBytes(fd))
    return format && !isReadable(format) ? format : undefined
  } catch (error) {
    return error as Error
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

function isRefused(error: unknown): error is { readonly code: string } {
  const code = errorCode(error)
  return code === 'EACCES' || code === 'EPERM'
}
