import { type FileHandle, open } from 'node:fs/promises'
import { z } from 'zod'
// Loads all codecs, since rejected events may name any.
import '../../../core/codecs/list.js'
import { TEXT_LINES } from '../../../core/codecs/text.js'
import { type AnyDefinition, defineSource } from '../../../core/component.js'
import { EventBatch } from '../../../core/event/batch.js'
import type { Origin } from '../../../core/event/origin.js'
import type { WantedNames } from '../../../lib/formats/json-scan.js'
import { CONTINUES, type Frame, LINE_END, LineSplitter, PIECE } from '../../../lib/lines/line-splitter.js'
import { LowWaterMark } from '../../flow/low-water-mark.js'
import { decodeLetter, type Letter } from './record.js'

/** Longer than any record, in bytes. */
const LONGEST_RECORD = 2 ** 30
const READ_SIZE = 256 * 1024

/** A record and its end in the file. `letter`: undefined if the line is not a rejected event. */
interface Found {
  readonly letter: Letter | undefined
  readonly end: number
}

/**
 * Yields a file's records from offset `from` on, several at a time. The last record may lack a line end. Skips this
 * record if it is incomplete: a crash interrupted the write, and the component that had the event resends it.
 */
async function* readRecords(path: string, from: number): AsyncGenerator<Found[]> {
  const splitter = new LineSplitter(LONGEST_RECORD)
  let file: FileHandle | undefined
  try {
    file = await open(path, 'r')
    let end = from
    for (let at = from; ; ) {
      const { bytesRead } = await file.read(splitter.reserve(READ_SIZE), 0, READ_SIZE, at)
      at += bytesRead
      const frame = bytesRead > 0 ? splitter.commit(bytesRead) : splitter.flush()
      if (frame) {
        const found = recordsOf(frame, end)
        frame.release?.()
        end += frame.bytes
        yield bytesRead > 0 ? found : found.filter(({ letter }) => letter)
      }
      if (bytesRead === 0) return
    }
  } finally {
    splitter.drop()
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

export interface Survey {
  events: number
  readonly reasons: Map<string, number>
  /** Number of the first line that is not a rejected event. */
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

/** Tracks which events of a dead-letter file are settled. */
export class LettersProgress {
  /** Number of events that this run settled. */
  events = 0
  /** Called when `done` has changed. */
  changed: () => void = () => {}
  readonly #ends: LowWaterMark<number>

  constructor(done: number) {
    this.#ends = new LowWaterMark(done, () => this.changed())
  }

  /** Byte offset before which all events are settled. */
  get done(): number {
    return this.#ends.mark
  }

  /** Registers the event whose record ends at `end`. Call the returned function when the event is settled. */
  send(end: number): () => void {
    const settle = this.#ends.add(end)
    return () => {
      this.events++
      settle()
    }
  }
}

/** A source of the events in a dead-letter file, from the current progress on. */
export function lettersSource(path: string, progress: LettersProgress): AnyDefinition<'source'> {
  return defineSource({
    type: 'dead_letters',
    summary: 'Reads the events of a dead-letter file.',
    options: z.strictObject({}),
    examples: [{ title: 'Dead letters', yaml: '' }],
    create: (_options, context) => ({
      async run(out, signal) {
        const { wanted } = context.origin(TEXT_LINES)
        // Called only because it reports damaged positions and sets their file aside.
        context.checkpoints.read()
        context.checkpoints.provide(() => ({ done: progress.done }))
        progress.changed = () => context.checkpoints.changed()
        let last: Letter | undefined
        let origin: Origin | undefined
        for await (const records of readRecords(path, progress.done)) {
          for (const { letter, end } of records) {
            if (signal.aborted) return
            if (!letter) continue
            if (!last || !hasSameOrigin(last, letter)) origin = originOf(letter, context.id, wanted)
            last = letter
            // Sends each event in its own batch, so that the progress is exact even if the run ends early.
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

export function originOf({ path, peer, host, codec, rejectedAt }: Letter, source: string, wanted: WantedNames): Origin {
  return {
    source,
    host,
    codec,
    wanted,
    ...(path === undefined ? {} : { path }),
    ...(peer === undefined ? {} : { peer }),
    ...(rejectedAt === undefined ? {} : { rejectedAt }),
  }
}

/**
 * Whether a rejected event can share the origin of the event before it. Both must have the same codec, file, peer and
 * host. The event must also continue a line (all pieces need one origin) or have the same time of rejection.
 */
function hasSameOrigin(before: Letter, { codec, path, peer, host, flags, rejectedAt }: Letter): boolean {
  const isAlike = before.codec.isSame(codec) && before.path === path && before.peer === peer && before.host === host
  return isAlike && (before.rejectedAt === rejectedAt || (flags & CONTINUES) !== 0)
}

const LF = Buffer.from('\n')

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
