import { lstat, realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { type FileId, OutOfReach, type Reach } from '../../../core/options/reach.js'
import { finalPath } from '../../../lib/files/final-path.js'
import type { Permissions } from './managed-options.js'
import { isBelow, patternMatches } from './permissions.js'

/** Enforces the permissions of a published pipeline at runtime. */
export class LimitedReach implements Reach {
  readonly #permitted: Permissions

  constructor(permitted: Permissions) {
    this.#permitted = permitted
  }

  realFile(path: string): string {
    const real = finalPath(path)
    const { never, files } = this.#permitted
    const forbidden = never.find(folder => isBelow(real, finalPath(folder)))
    if (forbidden !== undefined)
      throw new OutOfReach(`${path} leads into ${forbidden}, where this process keeps its state`)
    if (files.some(pattern => patternMatches(finalPattern(pattern), real))) return real
    const where = real === resolve(path) ? path : `${path} leads to ${real}, which`
    throw new OutOfReach(`${where} is not among the files that may be used`)
  }

  async confirm(path: string, opened: FileId): Promise<void> {
    const [there, real] = [await lstat(path), await realpath(path)]
    if (real !== path || opened.ino !== there.ino || opened.dev !== there.dev)
      throw new OutOfReach(`${path} was replaced by a link while it was opened`)
  }

  deniedAddress(address: string, port: number): string | undefined {
    const { urls, addresses } = this.#permitted
    // If the operator lists URLs, their hosts may resolve to any IP address.
    return urls === 'all' ? addresses?.denied(address, port) : undefined
  }
}

/** In a pattern of the operator, resolves symbolic links in the folders before the first wildcard. */
function finalPattern(pattern: string): string {
  const wildcard = pattern.search(/[*?]/)
  if (wildcard < 0) return join(finalPath(dirname(pattern)), basename(pattern))
  const end = pattern.lastIndexOf('/', wildcard)
  const folder = finalPath(pattern.slice(0, end) || '/')
  return `${folder === '/' ? '' : folder}${pattern.slice(end)}`
}
