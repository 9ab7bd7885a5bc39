import {
  closeSync,
  existsSync,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { crc32 } from 'node:zlib'

/** What the checkpoint of the file source says, read from outside: which document a start would find, and whose it is. */

interface Fingerprint {
  readonly bytes: number
  readonly hash: number
}

interface Entry {
  readonly path: string
  readonly dev: string
  readonly ino: string
  readonly birth: string
  readonly offset: number
  readonly head: Fingerprint
  readonly tail: Fingerprint
  /** Its inode may be another's: it is known by its content only. */
  readonly gone?: boolean
}

export const SOURCE = 'logs'

export class Saved {
  readonly #entries: Map<string, Entry>
  /** A document was there, and none can be read. */
  readonly lost: boolean

  /** Reads what is in the data folder now. */
  constructor(stateFolder: string) {
    const [newest, before] = documentPaths(stateFolder).map(load)
    const document = newest ?? before
    this.lost = document === undefined
    this.#entries = new Map(document?.filter(({ gone }) => !gone).map(entry => [`${entry.dev}:${entry.ino}`, entry]))
  }

  /** The committed position of the file at `path`; undefined: it is not known, or holds something else by now. */
  offset(key: string, path: string): number | undefined {
    const entry = this.#entries.get(key)
    if (!entry) return undefined
    const fd = openSync(path, 'r')
    try {
      const { birthtimeNs } = fstatSync(fd, { bigint: true })
      const { birth, offset, head, tail } = entry
      if (String(birthtimeNs) !== birth) return undefined
      if (!sameBytes(fd, 0, head) || !sameBytes(fd, offset - tail.bytes, tail)) return undefined
      return offset
    } finally {
      closeSync(fd)
    }
  }

  /** Whether a start finds the file by one of these names: in the folder where it was, and the same by its bytes. */
  finds(key: string, paths: readonly string[]): boolean {
    const entry = this.#entries.get(key)
    if (entry === undefined) return false
    return paths.some(path => dirname(path) === dirname(entry.path) && this.offset(key, path) !== undefined)
  }
}

/** The newest document, and the one before it. */
export function documentPaths(stateFolder: string): [string, string] {
  const path = join(stateFolder, 'checkpoints', `${SOURCE}.json`)
  return [path, `${path}.1`]
}

/** Files of the disk buffer of a destination: its ledger, and its segments in order. */
export function bufferFiles(stateFolder: string, destination: string): { ledger: string; segments: string[] } {
  const folder = join(stateFolder, 'buffer', destination)
  const names = existsSync(folder) ? readdirSync(folder) : []
  const segments = names.filter(name => name.endsWith('.segment')).sort()
  return { ledger: join(folder, 'ledger'), segments: segments.map(name => join(folder, name)) }
}

/** Does to a document what a dying disk does; false when it is not there, or the disk is not to be written. */
export function damage(path: string, how: 'empty' | 'cut' | 'flip', at: number): boolean {
  try {
    const bytes = readFileSync(path)
    const place = Math.floor(bytes.length * at)
    if (how === 'empty') truncateSync(path, 0)
    else if (how === 'cut') truncateSync(path, place)
    else {
      bytes[place] = bytes[place]! ^ (1 << Math.floor(at * 8))
      writeFileSync(path, bytes)
    }
    return true
  } catch {
    return false
  }
}

function load(path: string): Entry[] | undefined {
  try {
    const [head = '', document = ''] = readFileSync(path, 'utf8').split('\n')
    const { crc32: sum, sluice_checkpoint: format } = JSON.parse(head) as { crc32: number; sluice_checkpoint: number }
    if (format !== 1 || sum !== crc32(document)) return undefined
    return (JSON.parse(document) as { files: Entry[] }).files
  } catch {
    return undefined
  }
}

function sameBytes(fd: number, start: number, { bytes, hash }: Fingerprint): boolean {
  const found = Buffer.alloc(bytes)
  return readSync(fd, found, 0, bytes, start) === bytes && (bytes === 0 || crc32(found) === hash)
}
