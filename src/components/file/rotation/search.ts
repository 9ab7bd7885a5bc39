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
  for (const name of namesIn(folder)) {
    if (slices.due) await slices.pause()
    const stat = statIn(folder, name)
    if (stat?.isFile() && wanted.has(keyOf(stat))) yield [join(folder, name), stat]
  }
}

/** Those of a folder that is gone or cannot be read are none. */
export function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder)
  } catch (error) {
    unlessSilent(error)
    return []
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

/** Undefined if the file is gone or cannot be read. `keeps`: what is returned closes it. */
export function withFile<T>(path: string, use: (fd: number) => T, keeps = false): T | undefined {
  let fd: number | undefined
  let result: T | undefined
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    result = use(fd)
  } catch (error) {
    unlessSilent(error)
  } finally {
    if (fd !== undefined && !(keeps && result)) closeSync(fd)
  }
  return result
}
