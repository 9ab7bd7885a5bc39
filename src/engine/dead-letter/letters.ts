import { type FileHandle, open } from 'node:fs/promises'
import { z } from 'zod'
import { PLAIN_TEXT } from '../../codecs/text.js'
import { type AnyDefinition, defineSource } from '../../core/component.js'
import { EventBatch } from '../../core/event/batch.js'
import type { Origin } from '../../core/event/origin.js'
import { LowWaterMark } from '../../flow/low-water-mark.js'
import type { WantedNames } from '../../lib/formats/json-scan.js'
import { type Frame, LINE_END, LineSplitter, PIECE } from '../../lib/lines/line-splitter.js'
import { decodeLetter, type Letter } from './record.js'

/** More than any record has. */
const LONGEST_RECORD = 2 ** 30
const READ_SIZE = 256 * 1024

/** A record and where it ends in its file; `letter` is undefined where a line is none. */
interface Found {
  readonly letter: Letter | undefined
  readonly end: number
}

/**
 * The records of a file from `from` on, some at a time. What stands behind the last line end is one too, when it is
 * whole; otherwise it is what a crash left, and its event is sent by whoever had it.
 */
async function* readRecords(path: string, from: number): AsyncGenerator<Found[]> {
  let file: FileHandle | undefined
  try {
    file = await open(path, 'r')
    const splitter = new LineSplitter(LONGEST_RECORD)
    let end = from
    for (let at = from; ; ) {
      const { bytesRead } = await file.read(splitter.reserve(READ_SIZE), 0, READ_SIZE, at)
      at += bytesRead
      const frame = bytesRead > 0 ? splitter.commit(bytesRead) : splitter.flush()
      if (frame) {
        const found = recordsOf(frame, end)
        end += frame.bytes
        yield bytesRead > 0 ? found : found.filter(({ letter }) => letter)
      }
      if (bytesRead === 0) return
    }
  } finally {
    await file?.close()
  }
}

function recordsOf({ chunk, length, starts, ends, flags }: Frame, from: number): Found[] {
  const found: Found[] = []
  for (let i = 0; i < length; i++) {
    const [start, end] = [starts[i]!, ends[i]!]
    from += end - start + (flags[i]! & LINE_END)
    const letter = flags[i]! & PIECE ? undefined : decodeLetter(chunk, start, end)
    if (letter || end > start) found.push({ letter, end: from })
  }
  return found
}

/** What is in a file of dead letters. */
export interface Survey {
  events: number
  /** How many there are of each reason. */
  readonly reasons: Map<string, number>
  /** Number of the first line that is no dead letter. */
  wrongLine: number | undefined
}

export async function surveyLetters(path: string, from = 0): Promise<Survey> {
  const survey: Survey = { events: 0, reasons: new Map(), wrongLine: undefined }
  let line = 0
  for await (const records of readRecords(path, from)) {
    for (const { letter } of records) {
      line++
      if (!letter) survey.wrongLine ??= line
      else {
        survey.events++
        survey.reasons.set(letter.reason, (survey.reasons.get(letter.reason) ?? 0) + 1)
      }
    }
    if (survey.wrongLine !== undefined) break
  }
  return survey
}

/** How far the letters of a file are settled. */
export class LettersProgress {
  /** Events that were settled, in this run. */
  events = 0
  readonly #ends: LowWaterMark<number>

  constructor(done: number, changed: () => void) {
    this.#ends = new LowWaterMark(done, changed)
  }

  /** Bytes of the file before which all is settled. */
  get done(): number {
    return this.#ends.mark
  }

  /** Sends the event that ends there. Call what it returns when the event is settled. */
  send(end: number): () => void {
    const settle = this.#ends.add(end)
    return () => {
      this.events++
      settle()
    }
  }
}

/** A source of the events in a file of dead letters, from where the progress stands. */
export function lettersSource(path: string, progress: LettersProgress): AnyDefinition<'source'> {
  return defineSource({
    type: 'dead_letters',
    summary: 'Reads the events of dead letters.',
    options: z.strictObject({}),
    examples: [{ title: 'Dead letters', yaml: '' }],
    create: (_options, context) => ({
      async run(out, signal) {
        const { wanted } = context.origin(PLAIN_TEXT)
        let last: Letter | undefined
        let origin: Origin | undefined
        for await (const records of readRecords(path, progress.done)) {
          for (const { letter, end } of records) {
            if (signal.aborted) return
            if (!letter) continue
            if (!last || !isAlike(last, letter)) origin = originOf(letter, context.id, wanted)
            last = letter
            // Each by itself: what was sent is known to the event when the run is ended in the middle.
            const settle = progress.send(end)
            const ack = out.ack(status => {
              if (status !== 'errored') settle()
            })
            await out.send(new EventBatch(frameOf(letter), origin!, letter.receivedAt, ack))
          }
        }
      },
    }),
  })
}

/** Where the event of a letter came from. */
export function originOf({ path, peer, host, codec }: Letter, source: string, wanted: WantedNames): Origin {
  return {
    source,
    host,
    codec,
    wanted,
    ...(path === undefined ? {} : { path }),
    ...(peer === undefined ? {} : { peer }),
  }
}

/** Whether two letters may have come from one file or connection: then the pieces of a line find each other. */
function isAlike(a: Letter, b: Letter): boolean {
  return a.codec.isSame(b.codec) && a.path === b.path && a.peer === b.peer && a.host === b.host
}

const LF = Buffer.from('\n')

/** The event of a letter. */
export function frameOf({ line, flags }: Letter): Frame {
  const chunk = flags & LINE_END ? Buffer.concat([line, LF]) : line
  return {
    chunk,
    length: 1,
    starts: Int32Array.of(0),
    ends: Int32Array.of(line.length),
    flags: Uint8Array.of(flags),
    bytes: chunk.length,
  }
}
