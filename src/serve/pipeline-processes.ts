import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Writable } from 'node:stream'
import type { ServicePlugin } from '../config/plugins/read-plugins.js'
import { errorText } from '../core/errors.js'
import { BODY_FD } from '../ingest/process/body-pipe.js'
import type { Link, LinkEvents, StartLink } from '../ingest/process/link.js'
import type { FromProcess } from '../ingest/process/messages.js'
import { ranOutOfMemory, residentMemory, spawnBounded } from '../lib/bounded-process.js'

const ENTRY = new URL('./pipeline-process.js', import.meta.url)
/** Of the memory of a process, the part for the heap of V8; the rest is for buffers and the program itself. */
const HEAP = 3 / 4
/** What Node.js itself goes by for the time zone and for certificates. Nothing else of the environment is for pipelines. */
const VARIABLES = ['TZ', 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR']
/** The end of what a process writes to standard error says why it crashed. */
const LONGEST_TEXT = 1000

/** The first message to a process. Secrets follow with the pipelines, never in its arguments or its environment. */
export interface ProcessSetup {
  readonly account: string
  readonly folder: string
  readonly maxDisk: number
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
}

/** Starts a process of Node.js for each account. */
export function forkProcesses({ setup, maxMemory, env }: ForkOptions): StartLink {
  const passed = VARIABLES.filter(name => env[name] !== undefined).map(name => [name, env[name]])
  return (account, events) => {
    const child = spawnBounded(ENTRY, {
      maxHeap: maxMemory * HEAP,
      maxMemory,
      env: Object.fromEntries(passed),
      serialization: 'advanced',
      // The last one is for bodies, see BodyPipe.
      stdio: ['ignore', 'ignore', 'pipe', 'ipc', 'pipe'],
    })
    child.on('error', error => child.pid === undefined && events.ended({ outOfMemory: false, text: errorText(error) }))
    // It could not be started: where too many files are open, there are not even its pipes.
    if (child.pid === undefined) return { pid: undefined, memory: ignore, send: ignore, end: ignore, kill: ignore }
    follow(child, events)
    child.send({ ...setup, account } satisfies ProcessSetup, ignore)
    return linkTo(child)
  }
}

function linkTo(child: ChildProcess): Link {
  const bodies = child.stdio[BODY_FD] as Writable
  // The end of the process says the rest.
  bodies.on('error', ignore)
  return {
    pid: child.pid,
    memory: () => residentMemory(child.pid!),
    send(call, body) {
      child.send(call, ignore)
      if (body && body.bytes.length > 0) bodies.write(body.bytes, error => error || body.release?.())
    },
    end() {
      if (child.connected) child.disconnect()
      bodies.destroy()
    },
    kill: () => void child.kill('SIGKILL'),
  }
}

function follow(child: ChildProcess, events: LinkEvents): void {
  let text = ''
  let outOfMemory = false
  child.stderr!.setEncoding('utf8').on('data', (part: string) => {
    outOfMemory ||= ranOutOfMemory(text + part, null)
    text = (text + part).slice(-LONGEST_TEXT)
  })
  child.on('message', message => events.message(message as FromProcess))
  // Node.js emits no `close` for a child that was disconnected before.
  const closed = once(child.stderr!, 'close')
  child.on('exit', async (code, signal) => {
    await closed
    const last = `${text}\n${signal ?? `exit code ${code}`}`.trim()
    events.ended({ outOfMemory: outOfMemory || ranOutOfMemory('', signal), text: last })
  })
}

/** A message that cannot be sent any more: the process is gone, and its end says the rest. */
const ignore = () => undefined
