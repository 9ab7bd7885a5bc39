import { lstat, realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { errorCode } from '../core/errors.js'
import { type FileId, OutOfReach, type Reach } from '../core/reach.js'
import { isBelow, type Permitted, patternMatches } from './permitted.js'

/** The bounds of a component that a configuration from elsewhere has, while it runs. */
export class LimitedReach implements Reach {
  readonly #permitted: Permitted

  constructor(permitted: Permitted) {
    this.#permitted = permitted
  }

  async realFile(path: string): Promise<string> {
    const real = await realPathOf(resolve(path))
    for (const folder of this.#permitted.never) {
      if (isBelow(real, await realPathOf(folder)))
        throw new OutOfReach(`${path} leads into ${folder}, where the state of this process is`)
    }
    for (const pattern of this.#permitted.files) if (patternMatches(await realPattern(pattern), real)) return real
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
    // Addresses that the operator has listed may lead wherever their names lead.
    return urls === 'all' ? addresses?.denied(address, port) : undefined
  }
}

/** All links resolved; what does not exist yet is taken as it would be made. */
async function realPathOf(path: string): Promise<string> {
  try {
    return await realpath(path)
  } catch (error) {
    const parent = dirname(path)
    if (errorCode(error) !== 'ENOENT' || parent === path) throw error
    return join(await realPathOf(parent), basename(path))
  }
}

/** The folder in front of the first wildcard may be a link of the operator's own. */
async function realPattern(pattern: string): Promise<string> {
  const wildcard = pattern.search(/[*?]/)
  if (wildcard < 0) return join(await realPathOf(dirname(pattern)), basename(pattern))
  const end = pattern.lastIndexOf('/', wildcard)
  const folder = await realPathOf(pattern.slice(0, end) || '/')
  return `${folder === '/' ? '' : folder}${pattern.slice(end)}`
}
