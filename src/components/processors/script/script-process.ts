import type { ChildProcess } from 'node:child_process'
import type { Socket } from 'node:net'
import { errorText } from '../../../core/errors.js'
import { ranOutOfMemory, spawnBounded } from '../../../lib/bounded-process.js'
import { FrameReader } from '../../../lib/frames.js'
import { after } from '../../../lib/time.js'
import { checkedDone, checkedHead, type Expected, mostBytes } from './from-script.js'
import type { FromScript, Job, JobDone, ScriptData } from './messages.js'
import type { ScriptOptions } from './options.js'
import { jsonHead } from './write-frame.js'

/** How long loading a script may take. */
const LOAD_MS = 10_000
/** Errors of a batch are the largest part of a head, see results.ts. */
const MOST_HEAD = 16 * 1024 * 1024
/** The end of what a process writes to standard error says how it crashed. */
const LONGEST_TEXT = 1000

/** What a process is started with. */
export function scriptData(id: string, options: ScriptOptions): ScriptData {
  const { code, file, per, outputs, timeout: timeoutMs, concurrency } = options
  return { id, code, file, per, outputs, timeoutMs, concurrency }
}

export interface ProcessEvents {
  /** The batch with this id, if it is waited for. */
  expected(id: unknown): Expected | undefined
  done(result: JobDone): void
  /** The function is called for this event. */
  at(id: number, event: number): void
  /** The script wrote this to its standard output or error. */
  wrote(line: string): void
  /** The process ended without being asked to; nothing comes from it any more. */
  died(reason: string): void
}

/** One life of the process that a script runs in. Once the script is loaded, it does not keep the daemon alive. */
export class ScriptProcess {
  readonly #data: ScriptData
  readonly #events: ProcessEvents
  readonly #child: ChildProcess
  readonly #jobs: Socket | undefined
  readonly #reader: FrameReader
  #isOver = false
  /** While it loads. */
  #loading: { readonly resolve: () => void; readonly reject: (error: Error) => void } | undefined
  #reason: string | undefined
  /** The end of what it wrote to standard error. */
  #text = ''
  #received = 0

  /** Resolves when the script is loaded. Throws if it cannot be. */
  static async open(data: ScriptData, maxMemory: number, events: ProcessEvents): Promise<ScriptProcess> {
    const process = new ScriptProcess(data, maxMemory, events)
    const cancel = after(LOAD_MS, () =>
      process.#loading?.reject(new Error(`it was not loaded within ${LOAD_MS / 1000} s`)),
    )
    try {
      await new Promise<void>((resolve, reject) => {
        process.#loading = { resolve, reject }
        process.#send(data)
      })
      process.#unref()
      return process
    } catch (error) {
      process.end()
      throw error
    } finally {
      cancel()
      process.#loading = undefined
    }
  }

  private constructor(data: ScriptData, maxMemory: number, events: ProcessEvents) {
    this.#data = data
    this.#events = events
    this.#reader = new FrameReader(MOST_HEAD, head => {
      const message = checkedHead(JSON.parse(head.toString()), events.expected)
      const most = message.type === 'done' ? mostBytes(events.expected(message.id)!) : 0
      return { most, take: bytes => this.#receive(message, bytes) }
    })
    this.#child = spawnBounded(new URL('./script-main.js', import.meta.url), {
      maxHeap: maxMemory,
      maxMemory,
      stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'],
    })
    this.#child.once('error', error => this.#ended(errorText(error)))
    if (this.#child.pid !== undefined) this.#jobs = this.#follow()
  }

  #follow(): Socket {
    const [, , stderr, jobs, answers] = this.#child.stdio as unknown as Socket[]
    stderr!.on('data', data => {
      this.#text = `${this.#text}${data}`.slice(-LONGEST_TEXT)
    })
    answers!.on('data', (data: Buffer) => {
      if (this.#isOver) return
      this.#received += data.length
      try {
        this.#reader.push(data)
      } catch (error) {
        this.#kill(errorText(error))
      }
    })
    // What it has answered is read before it is said to have ended. A program that it started may keep standard error.
    const closed = new Promise(resolve => answers!.once('close', resolve))
    this.#child.once('exit', (code, signal) => void closed.then(() => this.#ended(endOf(code, signal, this.#text))))
    // The end of the process says the rest.
    for (const stream of [stderr, jobs, answers]) stream!.on('error', () => {})
    return jobs!
  }

  /** How many bytes have come from it. */
  get received(): number {
    return this.#received
  }

  post({ lines, ...head }: Job): void {
    if (!this.#isOver) this.#send(head, lines)
  }

  end(): void {
    this.#isOver = true
    this.#child.kill('SIGKILL')
  }

  #send(head: object, bytes?: Uint8Array): void {
    this.#jobs?.write(jsonHead(head, bytes?.length ?? 0))
    if (bytes) this.#jobs?.write(bytes)
  }

  #unref(): void {
    this.#child.unref()
    for (const stream of this.#child.stdio) (stream as Socket | null)?.unref()
  }

  #receive(message: FromScript, bytes: Buffer): void {
    const { expected, done, at, wrote } = this.#events
    if (this.#isOver) return
    if (message.type === 'done') {
      const { length } = expected(message.id)!
      done(checkedDone(message, length, this.#data.outputs.length, bytes))
    } else if (message.type === 'at') at(message.id, message.event)
    else if (message.type === 'wrote') wrote(message.line)
    else if (message.type === 'ready') this.#loading?.resolve()
    else this.#reason = message.error
  }

  #kill(reason: string): void {
    this.#reason = reason
    this.#child.kill('SIGKILL')
    this.#ended(reason)
  }

  #ended(reason: string): void {
    if (this.#isOver) return
    this.#isOver = true
    if (this.#loading) this.#loading.reject(new Error(this.#reason ?? reason))
    else this.#events.died(this.#reason ?? reason)
  }
}

function endOf(code: number | null, signal: NodeJS.Signals | null, text: string): string {
  if (ranOutOfMemory(text, signal)) return 'it needed more than max_memory'
  return signal === null ? `it ended itself${code === 0 ? '' : ` (exit code ${code})`}` : `it was ended by ${signal}`
}
