import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const KIB = 1024
const MIB = 1024 * KIB

/** What Node.js itself may take: its code, the stacks of its threads, and the young generation of its heap. */
const OWN_BYTES = 192 * MIB

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

export interface BoundedOptions extends Pick<SpawnOptions, 'stdio' | 'env' | 'serialization'> {
  /** Bytes for the heap of V8. */
  readonly maxHeap: number
  /** Bytes for everything that the program keeps, beside what Node.js itself takes. */
  readonly maxMemory: number
}

/** Starts a module in a process of Node.js of its own, whose memory the kernel bounds. */
export function spawnBounded(entry: URL, { maxHeap, maxMemory, ...options }: BoundedOptions): ChildProcess {
  const program = [process.execPath, `--max-old-space-size=${Math.ceil(maxHeap / MIB)}`, fileURLToPath(entry)]
  const data = Math.ceil((maxMemory + OWN_BYTES + codeBytes()) / KIB)
  return spawn('sh', ['-c', LAUNCH, 'sh', String(data), ...program], options)
}

/** What V8 and the C++ library write to standard error when they end a process that got no memory. */
const OUT_OF_MEMORY = /out of memory|Array buffer allocation failed|Failed to allocate memory|bad_alloc/

/** How a process ends that got no memory where nothing else can be done. */
const CRASHES = new Set(['SIGABRT', 'SIGSEGV', 'SIGTRAP', 'SIGBUS', 'SIGILL'])

/** Whether a process has ended because it ran out of memory, as far as one can tell. `text`: its standard error. */
export function ranOutOfMemory(text: string, signal: NodeJS.Signals | null): boolean {
  return OUT_OF_MEMORY.test(text) || (signal !== null && CRASHES.has(signal))
}

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
