import { closeSync, fstatSync, openSync, readFileSync, readSync, statSync } from 'node:fs'
import type { Counts } from '../counting.js'
import { LIMIT } from '../jobs.js'
import { blocks, checkThrottled, eachLine, expect, sameBytes } from '../verify.js'
import { eachRecord, framedMessages } from './otlp.js'
import { Pairs } from './pairs.js'
import type { JobId, Task } from './peer.js'
import type { Survey } from './survey.js'

/** Tells when a run has delivered everything, and whether that is right. */
export interface Outcome {
  /** A number that grows as long as the run makes progress. */
  progress(): Promise<number>
  /** Whether the last event is there. */
  complete(): boolean
  /** Throws unless what came out is complete and equal to what was read. */
  check(seconds: number): Promise<void>
}

/** A process of its own that counts what it receives. */
export interface Receiver {
  readonly port: number
  counts(): Promise<Counts>
  close(): void | Promise<void>
}

/** The end of a file in which its last line must be, with those after it: longer than any batch of a program. */
const TAIL_BYTES = 256 * 1024

export function outcomeOf(job: JobId, task: Task, input: Survey, out: string, receiver?: Receiver): Outcome {
  if (receiver) return new Received(task, input, receiver)
  return new Written(job, task, input, out)
}

class Written implements Outcome {
  readonly #job: JobId
  readonly #task: Task
  readonly #input: Survey
  readonly #out: string
  /** Of the last line that has to arrive; programs that encode a line again keep it. */
  readonly #lastId: string
  #size = 0

  constructor(job: JobId, task: Task, input: Survey, out: string) {
    this.#job = job
    this.#task = task
    this.#input = input
    this.#out = out
    this.#lastId = job === 'J2' ? input.lastExcludedId : input.lastId
  }

  async progress(): Promise<number> {
    this.#size = statSync(this.#out, { throwIfNoEntry: false })?.size ?? 0
    return this.#size
  }

  complete(): boolean {
    if (this.#size === 0) return false
    if (this.#task.output === 'none') return true
    if (this.#task.output === 'raw' && this.#job !== 'J2') return this.#size >= this.#input.bytes
    return tailOf(this.#out).includes(this.#lastId)
  }

  async check(seconds: number): Promise<void> {
    const { lines, bytes, path } = this.#input
    const { output } = this.#task
    if (output === 'none') expect('bytes read', Number(readFileSync(this.#out, 'utf8')), bytes)
    // Windows that are not opened by an event may begin anywhere, so one more of them may have been open.
    else if (this.#job === 'J2') checkThrottled(this.#out, this.#input, LIMIT, Math.floor(seconds) + 2)
    else if (output === 'otlp') this.#checkRecords()
    else if (output === 'raw' && !sameBytes(path, this.#out)) throw new Error(`${this.#out} is not what was read`)
    else if (output === 'json') {
      let written = 0
      eachLine(this.#out, () => written++)
      expect('lines written', written, lines)
    }
  }

  #checkRecords(): void {
    const pairs = new Pairs(this.#task.anyOrder)
    const messages = framedMessages(blocks(this.#out))
    let records: Buffer[] = []
    let at = 0
    eachLine(this.#input.path, line => {
      while (at === records.length) {
        const message = messages.next()
        if (message.done) throw new Error(`${this.#out} ends before the line ${line}`)
        records = []
        at = 0
        eachRecord(message.value, (bytes, begin, end) => records.push(bytes.subarray(begin, end)))
      }
      pairs.add(line, records[at++]!)
    })
    pairs.end()
    if (at < records.length || !messages.next().done) throw new Error(`${this.#out} has more records than lines`)
  }
}

function tailOf(path: string): Buffer {
  const file = openSync(path, 'r')
  try {
    const { size } = fstatSync(file)
    const tail = Buffer.alloc(Math.min(size, TAIL_BYTES))
    readSync(file, tail, 0, tail.length, size - tail.length)
    return tail
  } finally {
    closeSync(file)
  }
}

class Received implements Outcome {
  readonly #task: Task
  readonly #lines: number
  readonly #bytes: number
  readonly #receiver: Receiver
  #received = 0

  constructor(task: Task, { lines, bytes }: Survey, receiver: Receiver) {
    this.#task = task
    this.#lines = lines * (task.linesPerEvent ?? 1)
    this.#bytes = bytes
    this.#receiver = receiver
  }

  async progress(): Promise<number> {
    this.#received = (await this.#receiver.counts()).lines
    return this.#received
  }

  complete(): boolean {
    return this.#received >= this.#lines
  }

  async check(): Promise<void> {
    const { lines, bytes } = await this.#receiver.counts()
    expect('lines that arrived', lines, this.#lines)
    const equal = this.#task.output !== 'json' && this.#task.linesPerEvent === undefined
    expect('bytes that arrived', bytes, this.#bytes, equal ? this.#bytes : Number.POSITIVE_INFINITY)
  }
}
