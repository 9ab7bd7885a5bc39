import type { ChildProcess } from 'node:child_process'
import type { Socket } from 'node:net'
import { serialize } from 'node:v8'
import { errorText } from '../../core/errors.js'
import type { ServicePlugin } from '../../engine/config/plugins/read-plugins.js'
import { ranOutOfMemory, residentMemory, spawnBounded } from '../../lib/bounded-process.js'
import { FrameReader, frameHead } from '../../lib/frames.js'
import type { BodyBytes } from '../../net/http/events/send-body.js'
import { readMessage } from '../../service/ingest/process/from-process.js'
import type { Link, LinkEvents, StartLink } from '../../service/ingest/process/link.js'
import { TO_PROCESS } from '../../service/ingest/process/messages.js'

const ENTRY = new URL('./pipeline-process.js', import.meta.url)
/** Of the memory of a process, the part for the heap of V8; the rest is for buffers and the program itself. */
const HEAP = 3 / 4
/** What Node.js itself goes by for the time zone and for certificates. Nothing else of the environment is for pipelines. */
const VARIABLES = ['TZ', 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR']
/** What a process says of itself at once: the counters of all its components are the most of it. */
const MOST_HEAD = 128 * 1024 * 1024
/** The end of what a process writes to standard error says why it crashed. */
const LONGEST_TEXT = 1000

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
    const child = spawnBounded(entry, {
      maxHeap: maxMemory * HEAP,
      maxMemory,
      env: Object.fromEntries(passed),
      stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'],
    })
    child.on('error', error => child.pid === undefined && events.ended({ outOfMemory: false, text: errorText(error) }))
    // It could not be started: where too many files are open, there are not even its pipes.
    if (child.pid === undefined) return { pid: undefined, memory: ignore, send: ignore, end: ignore, kill: ignore }
    follow(child, events)
    const link = linkTo(child)
    link.send({ ...setup, account } satisfies ProcessSetup)
    return link
  }
}

function linkTo(child: ChildProcess): Link & { send(message: object): void } {
  const calls = child.stdio[TO_PROCESS] as Socket
  return {
    pid: child.pid,
    memory: () => residentMemory(child.pid!),
    send(message: object, body?: BodyBytes) {
      calls.write(frameHead(serialize(message), body?.bytes.length ?? 0))
      if (body && body.bytes.length > 0) calls.write(body.bytes, error => error || body.release?.())
    },
    end: () => void calls.end(),
    kill: () => void child.kill('SIGKILL'),
  }
}

function follow(child: ChildProcess, events: LinkEvents): void {
  const [, , stderr, calls, answers] = child.stdio as unknown as Socket[]
  let text = ''
  let outOfMemory = false
  stderr!.setEncoding('utf8').on('data', (part: string) => {
    outOfMemory ||= ranOutOfMemory(text + part, null)
    text = (text + part).slice(-LONGEST_TEXT)
  })
  const reader = new FrameReader(MOST_HEAD, head => ({ most: 0, take: () => events.message(readMessage(head)) }))
  let wrong: string | undefined
  answers!.on('data', (data: Buffer) => {
    if (wrong !== undefined) return
    try {
      reader.push(data)
    } catch (error) {
      // It is not asked for anything any more.
      wrong = errorText(error)
      child.kill('SIGKILL')
    }
  })
  // The end of the process says the rest.
  for (const stream of [stderr, calls, answers]) stream!.on('error', ignore)
  const closed = Promise.all([stderr, answers].map(stream => new Promise(resolve => stream!.once('close', resolve))))
  child.on('exit', async (code, signal) => {
    await closed
    const last = wrong ?? `${text}\n${signal ?? `exit code ${code}`}`.trim()
    events.ended({ outOfMemory: wrong === undefined && (outOfMemory || ranOutOfMemory('', signal)), text: last })
  })
}

const ignore = () => undefined
