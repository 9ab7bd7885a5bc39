import { createRequire } from 'node:module'
import { basename, resolve } from 'node:path'
import type * as BraceExpansion from 'brace-expansion'
import type Picomatch from 'picomatch'
import { errorText } from '../../../core/errors.js'
import { fileSystems } from '../../../lib/files/disk/file-systems.js'
import { finalPath } from '../../../lib/files/final-path.js'
import { Pattern } from '../../../lib/pattern.js'

const require = createRequire(import.meta.url)
/** Loaded only if a pattern has special characters, because picomatch has 60 KB of code. */
const picomatch = () => require('picomatch') as typeof Picomatch
const braces = () => require('brace-expansion') as typeof BraceExpansion

/** One part of a pattern between slashes: a name, any number of folders, or a test of a name. */
export type GlobSegment = string | typeof ANY_DEPTH | ((name: string) => boolean)
export const ANY_DEPTH = Symbol('**')

const MAX_ALTERNATIVES = 1000

const LITERAL = /^[\w./-]+$/

/** `whole`: the path matches. `prefix`: only paths below this path may match. */
export type GlobMatch = 'whole' | 'prefix' | 'no'

/** Compiles patterns to segments. Braces are expanded first, because each alternative may have another base folder. */
export function compileGlobs(patterns: readonly string[]): GlobSegment[][] {
  return patterns.flatMap(pattern => expandBraces(pattern)).map(pattern => compile(resolve(pattern)))
}

function compile(pattern: string): GlobSegment[] {
  const parts = pattern.split('/').slice(1)
  return parts.map(part => {
    if (part === '**') return ANY_DEPTH
    if (LITERAL.test(part)) return part
    const { isGlob, negated } = picomatch().scan(part)
    if (!isGlob && !negated) return part.replace(/\\(.)/g, '$1')
    return matcher(part, { posix: true, nonegate: true, nobrace: true })
  })
}

/** Builds a test for an untrusted pattern. picomatch only translates the pattern, and Pattern runs it safely. */
function matcher(glob: string, options: Picomatch.PicomatchOptions): (text: string) => boolean {
  if (LITERAL.test(glob)) return text => text === glob
  const { source, flags } = picomatch().makeRe(glob, options)
  try {
    const pattern = new Pattern(source, flags)
    return text => text === glob || (text !== '' && pattern.test(text))
  } catch (error) {
    throw new Error(`the file pattern ${glob} cannot be used: ${errorText(error)}`)
  }
}

/** The error in `patterns`; undefined if all are valid. */
export function globFault(patterns: readonly string[]): string | undefined {
  try {
    compileGlobs(patterns)
    compileExclude(patterns)
    return undefined
  } catch (error) {
    return errorText(error)
  }
}

/** Expands `a{b,c}` to `ab` and `ac`, and `{1..3}` to 1, 2 and 3. Other braces are literal. */
export function expandBraces(pattern: string): string[] {
  if (!pattern.includes('{')) return [pattern]
  // `expand` would remove these backslashes, but the parts of the pattern still need them.
  const escaped = pattern.replace(/\\[\\{},.]/g, '\\\\$&')
  const all = braces().expand(escaped, { max: MAX_ALTERNATIVES + 1 })
  if (all.length > MAX_ALTERNATIVES) throw new Error(`the braces of ${pattern} expand to too many patterns`)
  return all
}

/**
 * How the absolute `path` relates to `segments`. For each name, the comparison keeps all segments that may come next,
 * so that its time is bounded.
 */
export function matchPath(path: string, segments: readonly GlobSegment[]): GlobMatch {
  let next = afterDepth(0, segments)
  let isWhole = false
  for (const part of path.split('/').slice(1)) {
    const here = next
    next = new Set()
    isWhole = false
    for (const s of here) {
      const segment = segments[s]!
      if (segment === ANY_DEPTH ? part.startsWith('.') : !matchName(segment, part)) continue
      isWhole ||= s === segments.length - 1
      for (const to of afterDepth(segment === ANY_DEPTH ? s : s + 1, segments)) next.add(to)
    }
  }
  return isWhole ? 'whole' : next.size > 0 ? 'prefix' : 'no'
}

/**
 * When segment `s` is reached: the indices of the segments that the next name may match. There can be several, because
 * `**` also matches zero folders.
 */
function afterDepth(s: number, segments: readonly GlobSegment[]): Set<number> {
  const all = new Set<number>()
  for (; s < segments.length; s++) {
    all.add(s)
    if (segments[s] !== ANY_DEPTH || s === segments.length - 1) break
  }
  return all
}

/**
 * Creates a test for selected paths. With `links`, the test also accepts paths in which the base folder's links are
 * resolved.
 */
export function compileReads(
  include: readonly string[],
  exclude: readonly string[],
  links: boolean,
  systems = fileSystems,
): (path: string) => boolean {
  const excluded = compileExclude(exclude)
  const globs = compileGlobs(include).map(segments => {
    const folder = literalFolder(segments)
    return { segments, folder, real: links && systems.mountOf(folder) === undefined ? finalPath(folder) : folder }
  })
  return path =>
    globs.some(({ segments, folder, real }) => {
      const found = real !== folder && path.startsWith(`${real}/`) ? folder + path.slice(real.length) : path
      return matchPath(found, segments) === 'whole' && !excluded(found, basename(found))
    })
}

/** The folder that contains everything a pattern matches. */
function literalFolder(segments: readonly GlobSegment[]): string {
  const first = segments.findIndex((segment, i) => typeof segment !== 'string' || i === segments.length - 1)
  return `/${segments.slice(0, first).join('/')}`
}

export function matchName(segment: string | ((name: string) => boolean), name: string): boolean {
  return typeof segment === 'string' ? segment === name : segment(name)
}

/** Creates a test for excluded paths. A pattern with a slash tests the path, other patterns test the file's name. */
export function compileExclude(patterns: readonly string[]): (path: string, name: string) => boolean {
  const options = { posix: true, nonegate: true, dot: true }
  const all = patterns.flatMap(pattern => expandBraces(pattern))
  const names = all.filter(pattern => !pattern.includes('/')).map(pattern => matcher(pattern, options))
  const paths = all
    .filter(pattern => pattern.includes('/'))
    .map(pattern => matcher(pattern.startsWith('**') ? pattern : resolve(pattern), options))
  return (path, name) => names.some(test => test(name)) || paths.some(test => test(path))
}
