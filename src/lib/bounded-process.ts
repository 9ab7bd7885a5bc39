import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { type Begun, FrameReader } from './frames.js'
import { settledWithin } from './time.js'

const KIB = 1024
const MIB = 1024 * KIB

/** Memory of Node.js itself: code, thread stacks, and the young generation of the heap. */
const OWN_BYTES = 192 * MIB

/** Characters kept from the end of standard error, which says how the process crashed. */
const LONGEST_TEXT = 1000
/** How long to wait for standard error after the process ended. */
const LAST_WORDS_MS = 200

/** Returns the writable bytes that V8 reserves for code (512 MiB in newer Node.js). RLIMIT_DATA includes them. */
function codeBytes(): number {
  try {
    const ranges = readFileSync('/proc/self/maps', 'latin1').matchAll(/^(\w+)-(\w+) rwxp /gm)
    return [...ranges].reduce((sum, [, from, to]) => sum + Number.parseInt(to!, 16) - Number.parseInt(from!, 16), 0)
  } catch {
    return 0
  }
}

/**
 * Sets the limits of this process, then executes the program. Above RLIMIT_DATA, the kernel immediately refuses memory,
 * even to a busy process. If the machine runs out of memory, the kernel kills this process and not the parent.
 * RLIMIT_DATA includes thread stacks, so they get their usual size. With `setpriv`, the kernel also kills this process
 * when its parent ends, even if the process is in a loop.
 */
const LAUNCH = `{ echo 500 >/proc/self/oom_score_adj; ulimit -c 0; ulimit -s 8192; ulimit -d "$1"; } 2>/dev/null
shift
setpriv --pdeathsig KILL true 2>/dev/null && exec setpriv --pdeathsig KILL "$@"
exec "$@"`

export interface ProcessEnd {
  /** Why the process could not start, or the unexpected output for which it was killed. */
  readonly wrong: string | undefined
  /** Whether it ran out of memory, if that can be detected. */
  readonly outOfMemory: boolean
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** The end of its standard error. */
  readonly text: string
}

export interface BoundedOptions extends Pick<SpawnOptions, 'env'> {
  /** Bytes for the heap of V8. */
  readonly maxHeap: number
  /** Bytes for everything else that the program keeps, not counting Node.js itself. */
  readonly maxMemory: number
  /** Maximum bytes of the head of a frame. */
  readonly mostHead: number
  /** Parses the head of a frame from the process (see FrameReader). */
  readonly begin: (head: Buffer) => Begun
  readonly ended: (end: ProcessEnd) => void
}

/**
 * Runs a module in its own Node.js process, whose memory the kernel limits. Does not trust the output of the process,
 * and kills the process after the first unexpected frame.
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
      // If the process did not start, for example because too many files are open, `#follow` cannot report the end.
      if (this.pid === undefined) this.#end(null, null)
    })
    if (this.pid !== undefined) this.#calls = this.#follow()
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  get received(): number {
    return this.#received
  }

  /** Sends a frame. `sent` is called when `bytes` were written, or with an error if they were not. */
  send(head: Buffer, bytes?: Uint8Array, sent?: (error?: Error | null) => void): void {
    this.#calls?.write(head)
    if (bytes && bytes.length > 0) this.#calls?.write(bytes, sent)
  }

  /** Ends the input of the process. */
  end(): void {
    this.#calls?.end()
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }

  /** Lets the current process end before the child process. */
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
    // The event `exit` reports failures, so errors of the streams are ignored.
    for (const stream of [stderr, calls, answers]) stream.on('error', () => {})
    const [logged, answered] = [stderr, answers].map(stream => new Promise(resolve => stream.once('close', resolve)))
    this.#child.once('exit', async (code, signal) => {
      await answered
      // Waits only briefly, because a program that the process started may keep standard error open.
      await settledWithin(LAST_WORDS_MS, [logged!])
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

/** The messages with which V8 and the C++ library end a process that got no memory. */
const OUT_OF_MEMORY = /out of memory|Array buffer allocation failed|Failed to allocate memory|bad_alloc/

/** A process that cannot get memory may end with one of these signals. */
const CRASHES = new Set(['SIGABRT', 'SIGSEGV', 'SIGTRAP', 'SIGBUS', 'SIGILL'])

/** Returns the bytes of resident memory of a process; undefined if it has ended or the system does not report them. */
export function residentMemory(pid: number): number | undefined {
  try {
    // Does not use `statm`, because it counts in pages, whose size is unknown.
    const kib = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]
    return kib === undefined ? undefined : Number(kib) * KIB
  } catch {
    return undefined
  }
}
