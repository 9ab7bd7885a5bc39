import { SLOT, WantedNames } from '../../lib/formats/json-scan.js'
import type { ScanFlags } from '../../lib/kernel/json-lines.js'
import type { LineMemory, Lines } from '../../lib/kernel/line-memory.js'

export interface LineFormat {
  /** The format's number in assembly/field-lines.ts. */
  readonly number: number
  /**
   * The names of the format's fields, in the order of the field numbers in that file. If one of these fields is an
   * origin field, every line has this field.
   */
  readonly names: readonly string[]
}

/** The parts of an event before and after the fields of its line. */
export interface EventFrame {
  /** The beginning of the event. If `hasLine`, it ends with the quote that opens the string of the line. */
  readonly head: Buffer
  /** Whether the line follows the head, as the content of a string. */
  readonly hasLine: boolean
  /** The part before the fields. The kernel adds a comma after it, unless an opening brace precedes the fields. */
  readonly middle: Buffer
  /** The part after the fields. */
  readonly end: Buffer
  /** Three numbers for each wanted value in `middle`: its slot, and the slot's two numbers (see SLOT). */
  readonly middleSlots: Int32Array
}

export interface FieldExports {
  setFields(table: number): void
  setFrame(
    bytes: number,
    head: number,
    middle: number,
    end: number,
    hasLine: number,
    slot: number,
    slots: number,
    count: number,
  ): void
  scanFields(
    format: number,
    length: number,
    starts: number,
    ends: number,
    flags: number,
    out: number,
    stride: number,
    shift: number,
    skipped: number,
    scanned: number,
    decoded: number,
  ): number
  writeFields(
    format: number,
    length: number,
    starts: number,
    ends: number,
    flags: number,
    asked: number,
    taken: number,
    slots: number,
    stride: number,
    shift: number,
    to: number,
    toEnd: number,
  ): number
}

/** Maximum size of a frame, and maximum count of numbers in its slots. */
const FRAME_BYTES = 16 * 1024
const MIDDLE_SLOTS = 3 * 16
const MOST_FIELDS = 64
/** Bytes of an entry of the field table, and of the name in it. */
const ENTRY_BYTES = 40
const NAME_BYTES = 32
/** JavaScript reads smaller batches faster. */
const LEAST_BYTES = 1024

const NO_NAMES = new WantedNames()

/** Reads lines that consist of fields. Leaves rare lines to the caller. */
export class FieldLines {
  /** The last output. Event i of the group is [starts[i], ends[i]) of `output`; `ends[i]` is 0 if it was skipped. */
  readonly output: Buffer
  readonly starts: Int32Array
  readonly ends: Int32Array
  /** The slots of each event, as positions in `output`. */
  readonly slots: Int32Array
  readonly #code: FieldExports
  readonly #memory: LineMemory
  readonly #table: number
  readonly #frame: number
  readonly #middleSlots: Int32Array
  #format: LineFormat | undefined
  #wanted: WantedNames | undefined
  #version = -1

  constructor(code: FieldExports, memory: LineMemory) {
    this.#code = code
    this.#memory = memory
    this.starts = memory.starts
    this.ends = memory.ends
    this.slots = memory.slots
    this.output = memory.output
    this.#table = memory.take(MOST_FIELDS * ENTRY_BYTES)
    this.#middleSlots = new Int32Array(memory.bytes.buffer, memory.take(MIDDLE_SLOTS * 4), MIDDLE_SLOTS)
    this.#frame = memory.take(FRAME_BYTES)
    code.setFields(this.#table)
  }

  isWorthwhile({ length, starts, ends }: Lines): boolean {
    return length > 0 && ends[length - 1]! - starts[0]! >= LEAST_BYTES
  }

  /** Like JsonLines.scan, for a codec of the form `fields`. Skips lines with a flag of `by.skipped`. */
  scan(format: LineFormat, lines: Lines, wanted: WantedNames, out: Int32Array, by: ScanFlags): number {
    const { length, flags } = lines
    const memory = this.#memory
    const stride = wanted.names.length * SLOT
    let left = 0
    this.#use(format, wanted)
    for (let from = 0; from < length; ) {
      const to = memory.put(lines, from, stride)
      if (to === from) {
        left++
        flags[from++]! &= ~by.scanned
        continue
      }
      left += this.#code.scanFields(
        format.number,
        to - from,
        memory.starts.byteOffset,
        memory.ends.byteOffset,
        memory.flags.byteOffset,
        memory.slots.byteOffset,
        stride * 4,
        memory.shift(lines, from),
        by.skipped,
        by.scanned,
        by.decoded,
      )
      flags.set(memory.flags.subarray(0, to - from), from)
      if (stride > 0) out.set(memory.slots.subarray(0, (to - from) * stride), from * stride)
      from = to
    }
    return left
  }

  /** Sets the parts of events around their fields. Returns false if they are too long. */
  setFrame({ head, hasLine, middle, end, middleSlots }: EventFrame, wanted: WantedNames = NO_NAMES): boolean {
    if (head.length + middle.length + end.length > FRAME_BYTES || middleSlots.length > MIDDLE_SLOTS) return false
    const { bytes } = this.#memory
    bytes.set(head, this.#frame)
    bytes.set(middle, this.#frame + head.length)
    bytes.set(end, this.#frame + head.length + middle.length)
    this.#middleSlots.set(middleSlots)
    this.#code.setFrame(
      this.#frame,
      head.length,
      middle.length,
      end.length,
      hasLine ? 1 : 0,
      wanted.names.indexOf('message'),
      this.#middleSlots.byteOffset,
      middleSlots.length / 3,
    )
    return true
  }

  /**
   * Writes as many events as fit, for lines of valid UTF-8 from the line `from` on. Skips lines whose flags under the
   * mask `asked` differ from `taken`. Returns the index after the last processed line. `output`: the memory of the
   * kernel to write to.
   */
  write(
    format: LineFormat,
    lines: Lines,
    from: number,
    asked: number,
    taken: number,
    wanted: WantedNames = NO_NAMES,
    output: Buffer = this.output,
  ): number {
    const memory = this.#memory
    const stride = wanted.names.length * SLOT
    this.#use(format, wanted)
    const to = memory.put(lines, from, stride)
    if (to === from) {
      memory.ends[0] = 0
      return from + 1
    }
    const count = this.#code.writeFields(
      format.number,
      to - from,
      memory.starts.byteOffset,
      memory.ends.byteOffset,
      memory.flags.byteOffset,
      asked,
      taken,
      memory.slots.byteOffset,
      stride * 4,
      memory.shift(lines, from),
      output.byteOffset,
      output.byteOffset + output.length,
    )
    return from + count
  }

  /** Writes the table of fields, if it changed. */
  #use(format: LineFormat, wanted: WantedNames): void {
    if (this.#format === format && this.#wanted === wanted && this.#version === wanted.version) return
    this.#format = format
    this.#wanted = wanted
    this.#version = wanted.version
    const { bytes, view } = this.#memory
    for (const [field, name] of format.names.entries()) {
      const entry = this.#table + field * ENTRY_BYTES
      view.setUint32(entry, bytes.write(`,"${name}":`, entry + 8, NAME_BYTES), true)
      view.setInt32(entry + 4, wanted.names.indexOf(name), true)
    }
  }
}
