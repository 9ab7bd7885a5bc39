import type { OptionProblem } from '../../../core/component.js'
import { errorText } from '../../../core/errors.js'
import { BoundedProcess, type ProcessEnd } from '../../../lib/bounded-process.js'
import { existsSync } from '../../../lib/files/disk/disk.js'
import { jsonHead, readHead } from '../../../lib/frames.js'
import { after } from '../../../lib/time.js'
import { checkedDone, checkedHead, type Expected, mostBytes } from './from-script.js'
import type { FromScript, Job, JobDone, ScriptData } from './messages.js'
import type { ScriptOptions } from './options.js'

const LOAD_MS = 10_000
/** Maximum bytes of the head of a message. The largest part of a head is the errors of a batch, see results.ts. */
const MOST_HEAD = 16 * 1024 * 1024
const MOST_VALUES = 1024 * 1024

export function scriptData(id: string, options: ScriptOptions): ScriptData {
  const { code, file, per, outputs, timeout: timeoutMs, concurrency } = options
  return { id, code, file, per, outputs, timeoutMs, concurrency }
}

export interface ProcessEvents {
  /** The batch with this id, if its result is awaited. */
  expected(id: unknown): Expected | undefined
  done(result: JobDone): void
  at(id: number, event: number): void
  wrote(line: string): void
  /** The process ended unexpectedly. It does not send anything after this call. */
  died(reason: string): void
}

/** The script itself is wrong and cannot be loaded, so a retry does not help. */
export class NotLoadable extends Error {}

/** A process that runs a script. After the script has been loaded, the process does not keep the daemon alive. */
export class ScriptProcess {
  readonly #data: ScriptData
  readonly #events: ProcessEvents
  readonly #process: BoundedProcess
  #isOver = false
  /** Set while the script is loaded. */
  #loading: { readonly resolve: () => void; readonly reject: (error: Error) => void } | undefined
  /** Why the process ends. Undefined if it has not reported the reason. */
  #reason: string | undefined

  /** Resolves when the script is loaded. Throws if loading fails: NotLoadable if the process reported the reason. */
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
      process.#process.unref()
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
    this.#process = new BoundedProcess(new URL('./script-main.js', import.meta.url), {
      maxHeap: maxMemory,
      maxMemory,
      mostHead: MOST_HEAD,
      begin: head => {
        const message = checkedHead(readHead(head, MOST_VALUES), events.expected)
        const most = message.type === 'done' ? mostBytes(events.expected(message.id)!) : 0
        return { most, take: bytes => this.#receive(message, bytes) }
      },
      ended: end => this.#ended(end.wrong ?? this.#reason ?? endOf(end)),
    })
  }

  get received(): number {
    return this.#process.received
  }

  post({ lines, ...head }: Job): void {
    if (!this.#isOver) this.#send(head, lines)
  }

  end(): void {
    this.#isOver = true
    this.#process.kill()
  }

  #send(head: object, bytes?: Uint8Array): void {
    this.#process.send(jsonHead(head, bytes?.length ?? 0), bytes)
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

  #ended(reason: string): void {
    if (this.#isOver) return
    this.#isOver = true
    if (this.#loading) this.#loading.reject(reason === this.#reason ? new NotLoadable(reason) : new Error(reason))
    else this.#events.died(reason)
  }
}

function endOf({ outOfMemory, code, signal }: ProcessEnd): string {
  if (outOfMemory) return 'it needed more than max_memory'
  return signal === null ? `it ended itself${code === 0 ? '' : ` (exit code ${code})`}` : `it was ended by ${signal}`
}

export async function scriptProblems(options: ScriptOptions): Promise<readonly OptionProblem[]> {
  const path = [options.file === undefined ? 'code' : 'file']
  if (options.file !== undefined && !existsSync(options.file))
    return [{ path, message: `the file ${options.file} does not exist`, isWarning: true }]
  try {
    const none = () => undefined
    const nothing = { expected: none, done: none, at: none, wrote: none, died: none }
    const process = await ScriptProcess.open(scriptData('', options), options.max_memory, nothing)
    process.end()
    return []
  } catch (error) {
    return [{ path, message: errorText(error) }]
  }
}
