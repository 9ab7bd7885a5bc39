import { Ack, type AckStatus } from '../../core/event/ack.js'
import { BatchDecoder } from '../../flow/disk-buffer/batch-record.js'
import type { FanOut } from '../../flow/fan-out.js'
import type { WantedNames } from '../../lib/formats/json-scan.js'
import type { BatchMessage, ToWorker } from './messages.js'
import { isRoom } from './rooms.js'

type Accepted = Extract<ToWorker, { type: 'accepted' }>

/**
 * What one run of a worker thread sends, on the main thread. Makes batches of its records, passes them to the readers
 * of each output in order, and tells the thread when there is room for more and what became of them: several batches in
 * one message.
 */
export class Entrance {
  /** Events that came in so far. */
  events = 0
  readonly #post: (message: ToWorker, transfer?: readonly ArrayBuffer[]) => void
  readonly #decoder: BatchDecoder
  readonly #outputs: ReadonlyMap<string, Waiting>
  #taken: string[] = []
  #settled: (readonly [exit: string, number: number, status: AckStatus])[] = []
  #shrunk: (readonly [exit: string, number: number, bytes: number])[] = []
  #rooms: ArrayBuffer[] = []
  #isDue = false

  constructor(
    outputs: ReadonlyMap<string, FanOut>,
    wanted: WantedNames,
    post: (message: ToWorker, transfer?: readonly ArrayBuffer[]) => void,
  ) {
    this.#outputs = new Map([...outputs].map(([name, fanOut]) => [name, { fanOut, messages: [], isFull: false }]))
    this.#decoder = new BatchDecoder(wanted)
    this.#post = post
  }

  receive(message: BatchMessage): void {
    const output = this.#outputs.get(message.exit)!
    output.messages.push(message)
    this.#pass(output)
  }

  #pass(output: Waiting): void {
    while (!output.isFull && output.messages.length > 0) {
      const { exit, number, record, size } = output.messages.shift()!
      const batch = this.#decoder.decode(Buffer.from(record, 0, size), this.#ack(exit, number, record))
      this.events += batch.length
      const room = output.fanOut.write(batch)
      if (!room) this.#take(exit)
      else {
        output.isFull = true
        void room.then(() => {
          output.isFull = false
          this.#take(exit)
          this.#pass(output)
        })
      }
    }
    if (!output.isFull) output.whenEmpty?.()
  }

  /** Resolves when everything that was received of an output has been passed on. */
  passed(exit: string): Promise<void> {
    const output = this.#outputs.get(exit)!
    if (output.messages.length === 0 && !output.isFull) return Promise.resolve()
    return new Promise(resolve => {
      output.whenEmpty = resolve
    })
  }

  #take(exit: string): void {
    this.#taken.push(exit)
    this.#answerSoon()
  }

  /** The record goes back as soon as nobody needs it: a few events that wait have their bytes elsewhere by then. */
  #ack(exit: string, number: number, record: ArrayBuffer): Ack {
    let needed: ArrayBuffer | undefined = record
    const free = () => {
      // An abandoned write may still be reading it.
      if (needed && !ack.isErrored && isRoom(needed)) this.#rooms.push(needed)
      needed = undefined
      this.#answerSoon()
    }
    const ack = new Ack(
      status => {
        this.#settled.push([exit, number, status])
        free()
      },
      bytes => {
        this.#shrunk.push([exit, number, bytes])
        if (bytes >= 0) free()
      },
    )
    return ack
  }

  #answerSoon(): void {
    if (this.#isDue) return
    this.#isDue = true
    setImmediate(() => {
      this.#isDue = false
      const answer: Accepted = {
        type: 'accepted',
        taken: this.#taken,
        settled: this.#settled,
        shrunk: this.#shrunk,
        rooms: this.#rooms,
      }
      this.#taken = []
      this.#settled = []
      this.#shrunk = []
      this.#rooms = []
      this.#post(answer, answer.rooms)
    })
  }
}

/** Batches of one output that wait for room. */
interface Waiting {
  readonly fanOut: FanOut
  readonly messages: BatchMessage[]
  isFull: boolean
  whenEmpty?: () => void
}
