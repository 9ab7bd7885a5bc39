import { createHash } from 'node:crypto'
import { type FileHandle, open, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { errorCode, errorText } from '../../../core/errors.js'
import { readState } from '../../../core/unreadable.js'
import type { DiskAllowance } from '../../../engine/flow/disk-allowance.js'
import { makeFolder } from '../../../lib/files/make-folder.js'
import type { Clock } from '../../../lib/time.js'
import type { AccountKeys } from './account-keys.js'

/**
 * The idempotency keys of requests that were taken, in memory and in two files below the pipeline's folder. Invariants: a
 * key is known only when the events of its request are safe; it is in the file before the request is answered, so that
 * a killed process knows it again. The file is not synced: a power failure may forget the last keys, and with them
 * that a request was answered. Of two generations the older one is dropped as a whole, which bounds memory, files and time.
 */

/** Keys of one generation, and how long it takes more. */
const GENERATION_KEYS = 32_768
const GENERATION_MS = 12 * 3_600_000
/** What older versions wrote is shorter, and left out: such a request counts once more rather than being refused. */
const DIGEST_LENGTH = 43
const NAME = 'keys.ndjson'
const BEFORE = 'keys.before.ndjson'
/** Both files, which grow with the requests. */
export const KEY_FILES = [NAME, BEFORE]
/** At least what one line takes. */
const LINE_BYTES = 160

/** What was taken under a key. */
export interface AcceptedRequest {
  /** Digest of the request, see feed.ts. */
  readonly body: string
  readonly received: number
}

export interface KnownKeysOptions {
  readonly folder: string
  readonly clock: Clock
  readonly log: Logger
  /** Bounds of the account; left out in tests. */
  readonly disk?: DiskAllowance
  readonly account?: AccountKeys
  /** Usually left out. */
  readonly generationKeys?: number
}

export class KnownKeys {
  readonly #options: KnownKeysOptions
  readonly #most: number
  #now = new Map<string, AcceptedRequest>()
  #before = new Map<string, AcceptedRequest>()
  #began: number
  #file: FileHandle | undefined
  /** Bytes of each file. */
  readonly #bytes = { [NAME]: 0, [BEFORE]: 0 }
  /** What the files have to follow of what was done in memory, in this order. */
  #due: ('turn' | 'drop')[] = []
  /** Lines that wait for the write under way. */
  #lines: string[] = []
  #writing: Promise<void> | undefined
  /** Whether a part of a line may stand at the end of the file, of a failed write or of a process that was killed. */
  #torn = true
  #isReported = false

  /** Reads what the files say. What is damaged in them is left out. Throws StateUnreadable when one cannot be read. */
  static async open(options: KnownKeysOptions): Promise<KnownKeys> {
    const keys = new KnownKeys(options)
    await makeFolder(options.folder, 0o700)
    await keys.#load(BEFORE, keys.#before)
    await keys.#load(NAME, keys.#now)
    keys.#count(true)
    options.account?.add(keys)
    return keys
  }

  private constructor(options: KnownKeysOptions) {
    this.#options = options
    this.#most = options.generationKeys ?? GENERATION_KEYS
    this.#began = options.clock.wall()
  }

  /** Whether another key may be kept. */
  get hasRoom(): boolean {
    return this.#options.disk?.hasRoom(LINE_BYTES) ?? true
  }

  /** Keys of the older generation. */
  get older(): number {
    return this.#before.size
  }

  get size(): number {
    return this.#now.size + this.#before.size
  }

  get(key: string): AcceptedRequest | undefined {
    const name = nameOf(key)
    return this.#now.get(name) ?? this.#before.get(name)
  }

  /** Resolves when it is in the file, or cannot be: then it is known as long as the process lives. */
  async add(key: string, taken: AcceptedRequest): Promise<void> {
    const { clock, account } = this.#options
    const name = nameOf(key)
    this.#now.set(name, taken)
    this.#lines.push(`${JSON.stringify({ k: name, b: taken.body, n: taken.received, t: clock.wall() })}\n`)
    account?.trim()
    const before = this.#writing
    // A write that has begun does not have this line.
    if (before) await before
    await this.#flush()
  }

  /** Forgets the older half of the keys, or all of them if they are of one generation. Returns how many. */
  forgetOlder(): number {
    if (this.#before.size === 0) this.#turn()
    const forgotten = this.#before.size
    this.#before = new Map()
    this.#due.push('drop')
    void this.#flush()
    return forgotten
  }

  async close(): Promise<void> {
    this.#options.account?.remove(this)
    await this.#writing
    await this.#file?.close()
    this.#file = undefined
    this.#count(false)
  }

  #flush(): Promise<void> {
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined
    })
    return this.#writing
  }

  async #write(): Promise<void> {
    const lines = this.#lines
    this.#lines = []
    if (lines.length === 0 && this.#due.length === 0) return
    const { folder, log } = this.#options
    try {
      await this.#followAll()
      if (lines.length > 0) {
        this.#file ??= await open(join(folder, NAME), 'a', 0o600)
        const text = `${this.#torn ? '\n' : ''}${lines.join('')}`
        await this.#file.appendFile(text)
        this.#bytes[NAME] += text.length
        this.#torn = false
        lines.length = 0
      }
      this.#turnWhenDue()
      await this.#followAll()
      this.#isReported = false
    } catch (error) {
      this.#torn = true
      // They are written with the next key.
      this.#lines = [...lines, ...this.#lines].slice(-this.#most)
      if (!this.#isReported)
        log.warn(
          { error: errorText(error) },
          'cannot write idempotency keys to their file; they are known until the service ends, and written with the next key. Check the disk of data_dir',
        )
      this.#isReported = true
    }
  }

  #turnWhenDue(): void {
    const { clock, account } = this.#options
    const due = this.#now.size >= this.#most || clock.wall() - this.#began >= GENERATION_MS
    const early = !due && account !== undefined && this.#now.size >= account.generationKeys
    if (early && this.#before.size > 0) account.forgot(this.#before.size)
    if (due || early) this.#turn()
  }

  /** The next generation. */
  #turn(): void {
    this.#before = this.#now
    this.#now = new Map()
    this.#began = this.#options.clock.wall()
    this.#due.push('turn')
  }

  async #followAll(): Promise<void> {
    for (let next = this.#due[0]; next; next = this.#due[0]) {
      await this.#follow(next)
      this.#due.shift()
    }
  }

  async #follow(step: 'turn' | 'drop'): Promise<void> {
    const { folder } = this.#options
    if (step === 'turn') {
      const file = this.#file
      this.#file = undefined
      await file?.close()
      await rename(join(folder, NAME), join(folder, BEFORE)).catch(error => {
        // No key of this generation could be written.
        if (errorCode(error) !== 'ENOENT') throw error
      })
      this.#bytes[BEFORE] = this.#bytes[NAME]
      this.#bytes[NAME] = 0
    } else {
      await rm(join(folder, BEFORE), { force: true })
      this.#bytes[BEFORE] = 0
    }
  }

  /** Counts both files in the allowance of the account: as they grow, or as they are left. */
  #count(live: boolean): void {
    const { folder, disk } = this.#options
    for (const name of [NAME, BEFORE] as const) {
      const left = this.#bytes[name]
      const path = join(folder, name)
      if (live) disk?.count(path, () => this.#bytes[name], NOTHING)
      else disk?.count(path, () => left)
    }
  }

  async #load(name: typeof NAME | typeof BEFORE, into: Map<string, AcceptedRequest>): Promise<void> {
    const { folder, clock } = this.#options
    const text = await readState(join(folder, name), path => readFile(path, 'utf8'))
    if (text === undefined) return
    const oldest = clock.wall() - 2 * GENERATION_MS
    for (const line of text.split('\n')) {
      const read = parse(line)
      if (!read || read.t < oldest) continue
      into.set(read.k, { body: read.b, received: read.n })
      if (into === this.#now) this.#began = Math.min(this.#began, read.t)
    }
    // A file in which everything is too old would stay as long as nobody sends another key.
    if (into.size === 0) await rm(join(folder, name), { force: true }).catch(() => {})
    else this.#bytes[name] = Buffer.byteLength(text)
  }
}

/** Nothing of a file can be removed before its keys are too old. */
const NOTHING = () => {}

/** Keys may be long, and are whatever a client thinks of. */
function nameOf(key: string): string {
  return createHash('sha256').update(key, 'latin1').digest('base64url').slice(0, 24)
}

function parse(line: string): { k: string; b: string; n: number; t: number } | undefined {
  try {
    const { k, b, n, t } = JSON.parse(line) as Record<string, unknown>
    if (
      typeof k === 'string' &&
      typeof b === 'string' &&
      b.length === DIGEST_LENGTH &&
      typeof n === 'number' &&
      typeof t === 'number'
    )
      return { k, b, n, t }
  } catch {
    // The last line of a process that was killed.
  }
  return undefined
}
