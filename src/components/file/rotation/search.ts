import { type BigIntStats, constants } from 'node:fs'
import { join } from 'node:path'
import { closeSync, openSync, readdirSync, statSync, unlessSilent } from '../../../lib/files/remote/guarded-fs.js'
import { keyOf } from '../identity.js'
import type { Slices } from '../slices.js'

/** The files in a folder with one of the wanted keys. */
export async function* search(
  folder: string,
  wanted: ReadonlyMap<string, unknown>,
  slices: Slices,
): AsyncIterable<[string, BigIntStats]> {
  let names: string[] = []
  try {
    names = readdirSync(folder)
  } catch (error) {
    unlessSilent(error)
    // A folder that is gone or cannot be read contains none of them.
  }
  for (const name of names) {
    if (slices.due) await slices.pause()
    const stat = statIn(folder, name)
    if (stat?.isFile() && wanted.has(keyOf(stat))) yield [join(folder, name), stat]
  }
}

/** What has this name in the folder; undefined if there is nothing, or it cannot be accessed. */
export function statIn(folder: string, name: string): BigIntStats | undefined {
  return statOf(join(folder, name), folder)
}

/** Undefined if nothing is there, or it cannot be accessed, as a link that leads to itself. `folder`: see `unlessSilent`. */
export function statOf(path: string, folder?: string): BigIntStats | undefined {
  try {
    return statSync(path, { bigint: true, throwIfNoEntry: false })
  } catch (error) {
    unlessSilent(error, folder)
    return undefined
  }
}

/** Undefined if the file is gone or cannot be read. */
export function withFile<T>(path: string, use: (fd: number) => T): T | undefined {
  let fd: number | undefined
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    return use(fd)
  } catch (error) {
    unlessSilent(error)
    return undefined
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}
