import { basename } from 'node:path'
import { formatOfName, uncompressedName } from '../compression.js'
import type { Entry } from '../saved.js'

/** Names that log rotation gives to former content of a file. */

/** A number or time after the name: app.log.1, app.log-20260101, app.log-20260101T030000. */
const NUMBERED = /^[-._]\d[-._:T\d]*$/
/** A date before the extension: app-20260101.log. A file such as app-2.log is more often an unrelated file. */
const DATED = /^[-._]\d{4}[-._:T\d]{2,}$/
const COUNTED = /\.\d{1,3}$/

/** Whether `name` is a rotated name of the file `of`: with a number or time, or the ending of a compressed file. */
export function isRotatedName(name: string, of: string): boolean {
  const plain = uncompressedName(name)
  if (plain === of) return plain !== name
  if (plain.startsWith(of)) return NUMBERED.test(plain.slice(of.length))
  const [stem, extension] = split(of)
  if (extension === '' || !plain.startsWith(stem) || !plain.endsWith(extension)) return false
  return DATED.test(plain.slice(stem.length, -extension.length))
}

/**
 * Whether `name` may be renamed to `later`. Compressing is not renaming: it creates a file, maybe with the same inode.
 */
function mayBecome(name: string, later: string): boolean {
  return formatOfName(name) !== undefined || formatOfName(later) === undefined
}

/**
 * Whether a file that was at `path`, and has the name `file` in its events, may be at `later` now, where a file has its
 * inode. `isBlind`: nothing was read of it, and there are no birth times, so only its name shows that this is the file.
 */
export function mayBeAt(later: string, { path, file = path }: Pick<Entry, 'path' | 'file'>, isBlind: boolean): boolean {
  return mayBecome(path, later) && (!isBlind || later === path || isRotatedName(basename(later), basename(file)))
}

/** Names of the possible originals of a file with this name. */
export function* originalNames(name: string): Iterable<string> {
  for (let at = name.length - 1; at > 0; at--) if ('-._~'.includes(name[at]!)) yield name.slice(0, at)
  const dated = /^(.+?)([-._]\d{4}[-._:T\d]{2,})(\.[^.]+)$/.exec(name)
  if (dated) yield dated[1]! + dated[3]!
}

/** Compares rotated names of one file, the oldest first. Numbers increase with age, but times decrease. */
export function compareAge(a: string, b: string): number {
  const order = a.localeCompare(b, 'en', { numeric: true })
  return COUNTED.test(uncompressedName(a)) ? -order : order
}

/** The beginning that the names of all copies of a file share. */
export function stemOf(name: string): string {
  return split(name)[0]
}

/** Of these stems, those that a copy with this name may share. */
export function* stemsWithin(name: string, stems: { has(stem: string): boolean }): Iterable<string> {
  for (let end = 1; end <= name.length; end++) {
    const stem = name.slice(0, end)
    if (stems.has(stem)) yield stem
  }
}

function split(name: string): [stem: string, extension: string] {
  const dot = name.lastIndexOf('.')
  return dot > 0 ? [name.slice(0, dot), name.slice(dot)] : [name, '']
}
