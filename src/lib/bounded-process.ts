import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { type Begun, FrameReader } from './frames.js'
import { settledWithin } from './time.js'

const KIB = 1024
const MIB = 1024 * KIB

/** What Node.js itself may take: its code, the stacks of its threads, and the young generation of its heap. */
const OWN_BYTES = 192 * MIB

/** The end of what a process writes to standard error says how it crashed. */
const LONGEST_TEXT = 1000
/** How long that is waited for when it has ended. */
const LAST_WORDS_MS = 200

/** What V8 reserves for code, writable from the start: 512 MiB in newer releases of Node.js. It counts as data. */
function codeBytes(): number {
  try {
    const ranges = readFileSync('/proc/self/maps', 'latin1').matchAll(/^(\w+)-(\w+) rwxp /gm)
    return [...ranges].reduce((sum, [, from, to]) => sum + Number.parseInt(to!, 16) - Number.parseInt(from!, 16), 0)
  } catch {
    return 0
  }
}

/**
 * Sets the limits of this process, and becomes the program. The kernel refuses memory beyond RLIMIT_DATA at once, also
 * to a process that is busy. Where the machine has no memory left, it ends this process rather than its parent. A stack
 * of each thread counts, and is not larger than usual. A loop does not outlive the parent, where there is `setpriv`.
 */
const LAUNCH = `{ echo 500 >/proc/self/oom_score_adj; ulimit -c 0; ulimit -s 8192; ulimit -d "$1"; } 2>/dev/null
shift
setpriv --pdeathsig KILL true 2>/dev/null && exec setpriv --pdeathsig KILL "$@"
exec "$@"`

export interface ProcessEnd {
  /** It could not be started, or sent what was not expected, and was killed. */
  readonly wrong: string | undefined
  /** As far as one can tell. */
  readonly outOfMemory: boolean
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** The end of what it wrote to standard error. */
  readonly text: string
}

export interface BoundedOptions extends Pick<SpawnOptions, 'env'> {
  /** Bytes for the heap of V8. */
  readonly maxHeap: number
  /** Bytes for everything that the program keeps, beside what Node.js itself takes. */
  readonly maxMemory: number
  /** Bytes of the head of a frame. */
  readonly mostHead: number
  /** Understands the head of a frame that it wrote; see FrameReader. */
  readonly begin: (head: Buffer) => Begun
  readonly ended: (end: ProcessEnd) => void
}

/**
 * A module in a process of Node.js of its own, whose memory the kernel bounds. What it sends is input: it is killed at the
 * first frame that is not as expected.
 */
export class BoundedProcess {
  readonly #child: ChildProcess
  readonly #calls: Socket | undefined
  readonly #reader: FrameReader
  readonly #ended: (end: ProcessEnd) => void
  #wrong: string | undefined
  #outOfMemory = false
  #text = ''
  #received = 0

  constructor(entry: URL, { maxHeap, maxMemory, env, mostHead, begin, ended }: BoundedOptions) {
    const program = [process.execPath, `--max-old-space-size=${Math.ceil(maxHeap / MIB)}`, fileURLToPath(entry)]
    const data = Math.ceil((maxMemory + OWN_BYTES + codeBytes()) / KIB)
    this.#reader = new FrameReader(mostHead, begin)
    this.#ended = ended
    this.#child = spawn('sh', ['-c', LAUNCH, 'sh', String(data), ...program], {
      ...(env && { env }),
      stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'],
    })
    this.#child.on('error', error => {
      this.#wrong = error.message
      // Where too many files are open, there are not even its pipes.
      if (this.pid === undefined) this.#end(null, null)
    })
    if (this.pid !== undefined) this.#calls = this.#follow()
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** How many bytes of frames have come from it. */
  get received(): number {
    return this.#received
  }

  /** Sends a frame. `sent` is called when its bytes were written, with an error if they were not. */
  send(head: Buffer, bytes?: Uint8Array, sent?: (error?: Error | null) => void): void {
    this.#calls?.write(head)
    if (bytes && bytes.length > 0) this.#calls?.write(bytes, sent)
  }

  /** Nothing more is sent. */
  end(): void {
    this.#calls?.end()
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }

  /** From now on, it does not keep this process alive. */
  unref(): void {
    this.#child.unref()
    for (const stream of this.#child.stdio) (stream as Socket | null)?.unref()
  }

  #follow(): Socket {
    const [, , stderr, calls, answers] = this.#child.stdio as unknown as [null, null, Socket, Socket, Socket]
    stderr.setEncoding('utf8').on('data', (part: string) => {
      this.#text += part
      this.#outOfMemory ||= OUT_OF_MEMORY.test(this.#text)
      this.#text = this.#text.slice(-LONGEST_TEXT)
    })
    answers.on('data', (data: Buffer) => {
      if (this.#wrong !== undefined) return
      this.#received += data.length
      try {
        this.#reader.push(data)
      } catch (error) {
        this.#wrong = (error as Error).message
        this.kill()
      }
    })
    // The end of the process says the rest.
    for (const stream of [stderr, calls, answers]) stream.on('error', () => {})
    const [told, answered] = [stderr, answers].map(stream => new Promise(resolve => stream.once('close', resolve)))
    this.#child.once('exit', async (code, signal) => {
      await answered
      // A program that it started may keep it.
      await settledWithin(LAST_WORDS_MS, [told!])
      this.#end(code, signal)
    })
    return calls
  }

  #end(code: number | null, signal: NodeJS.Signals | null): void {
    const crashed = this.#outOfMemory || (signal !== null && CRASHES.has(signal))
    const wrong = this.#wrong
    this.#ended({ wrong, outOfMemory: wrong === undefined && crashed, code, signal, text: this.#text })
  }
}

/** What V8 and the C++ library write to standard error when they end a process that got no memory. */
const OUT_OF_MEMORY = /out of memory|Array buffer allocation failed|Failed to allocate memory|bad_alloc/

/** How a process ends that got no memory where nothing else can be done. */
const CRASHES = new Set(['SIGABRT', 'SIGSEGV', 'SIGTRAP', 'SIGBUS', 'SIGILL'])

/** Bytes of resident memory of a process; undefined: it is gone, or the system does not tell. */
export function residentMemory(pid: number): number | undefined {
  try {
    // Unlike statm, it does not count pages of an unknown size.
    const kib = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]
    return kib === undefined ? undefined : Number(kib) * KIB
  } catch {
    return undefined
  }
}
