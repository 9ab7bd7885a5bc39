import { serialize } from 'node:v8'
import type { ServicePlugin } from '../../engine/config/plugins/read-plugins.js'
import { BoundedProcess, residentMemory } from '../../lib/bounded-process.js'
import { frameHead, readHead } from '../../lib/frames.js'
import type { BodyBytes } from '../../net/http/events/send-body.js'
import type { StartLink } from '../../service/ingest/process/link.js'

const ENTRY = new URL('./pipeline-process.js', import.meta.url)
/** Of the memory of a process, the part for the heap of V8; the rest is for buffers and the program itself. */
const HEAP = 3 / 4
/** What Node.js itself goes by for the time zone and for certificates. Nothing else of the environment is for pipelines. */
const VARIABLES = ['TZ', 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR']
/** A component with many series by key says the most at once. A message takes at most 50 MB of memory. */
const MOST_HEAD = 8 * 1024 * 1024
const MOST_VALUES = 256 * 1024

/** The first message to a process. Secrets follow with the pipelines, never in its arguments or its environment. */
export interface ProcessSetup {
  readonly account: string
  readonly folder: string
  readonly maxDisk: number
  readonly maxSeries: number
  readonly logLevel: string
  readonly files: readonly string[]
  readonly never: readonly string[]
  readonly urls: readonly string[] | 'all'
  readonly addresses: readonly string[]
  readonly plugins: readonly ServicePlugin[]
}

interface ForkOptions {
  readonly setup: Omit<ProcessSetup, 'account'>
  /** Bytes. */
  readonly maxMemory: number
  readonly env: NodeJS.ProcessEnv
  /** The program. */
  readonly entry?: URL
}

/** Starts a process of Node.js for each account. */
export function forkProcesses({ setup, maxMemory, env, entry = ENTRY }: ForkOptions): StartLink {
  const passed = VARIABLES.filter(name => env[name] !== undefined).map(name => [name, env[name]])
  return (account, events) => {
    const child = new BoundedProcess(entry, {
      maxHeap: maxMemory * HEAP,
      maxMemory,
      env: Object.fromEntries(passed),
      mostHead: MOST_HEAD,
      begin: head => ({ most: 0, take: () => events.message(readHead(head, MOST_VALUES)) }),
      ended: ({ outOfMemory, wrong, text, code, signal }) =>
        events.ended({ outOfMemory, text: wrong ?? `${text}\n${signal ?? `exit code ${code}`}`.trim() }),
    })
    const send = (message: object, body?: BodyBytes) =>
      child.send(
        frameHead(serialize(message), body?.bytes.length ?? 0),
        body?.bytes,
        error => error || body?.release?.(),
      )
    send({ ...setup, account } satisfies ProcessSetup)
    const { pid } = child
    return {
      pid,
      memory: () => (pid === undefined ? undefined : residentMemory(pid)),
      send,
      end: () => child.end(),
      kill: () => child.kill(),
    }
  }
}
