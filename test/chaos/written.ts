/** What the model is made of: lines, the files that they were written to, and what arrived of them. */

export class Failure extends Error {
  readonly kind: string
  constructor(kind: string, message: string) {
    super(message)
    this.kind = kind
  }
}

/** A request whose lines the receiver kept. */
export interface Arrival {
  /** The start of the daemon that sent it, from 1. */
  readonly life: number
  /** Of the request, in the order in which they began. */
  readonly number: number
  /** Whether the daemon must know that it arrived. */
  clear: boolean
}

/** Bytes [from, to) of a line. */
export interface Part {
  readonly line: Line
  readonly from: number
  readonly to: number
  /** Too short to say for sure whose piece it is. */
  readonly vague: boolean
}

export interface Take extends Part {
  readonly arrival: Arrival
}

/** Where a line stands in a file. */
export interface Placement {
  readonly line: Line
  readonly content: Content
  readonly start: number
  excused: string | undefined
  /** Covered by a checkpoint, with a disk buffer: it is safe there. */
  kept: boolean
  /** Covered by a checkpoint in part, with a disk buffer: its first piece is safe there. */
  begun: boolean
  /** Safe there, and destroyed. */
  destroyed: boolean
  /** Perhaps in a part of the buffer that was destroyed: it may come out of its order. */
  displaced: boolean
}

/** A start of the daemon: what may come again then. */
export interface Birth {
  /** The one before had ended in order, with nothing left but in its buffer, and nobody touched its files since. */
  readonly clean: boolean
  /** The disk buffer held nothing any more, or there is none. */
  readonly drained: boolean
  /** From which byte on each content is read again; those that are not here cannot be read. */
  readonly from: ReadonlyMap<Content, number>
  /** How long each content was. */
  readonly sizes: ReadonlyMap<Content, number>
}

export class Line {
  readonly id: string
  readonly text: string
  /** With its line end. */
  readonly bytes: string
  readonly placements: Placement[] = []
  readonly takes: Take[] = []
  /** Written to its end. */
  whole = false
  /** Was at the end of a file without its line end, or is longer than a line may be. */
  inPieces = false
  deadLetters = 0
  /** A piece of it arrived, so that the others must. */
  broken = false
  /** Whether the receiver refused it for good at some time. */
  refused = false

  constructor(id: string, text: string, eol: string) {
    this.id = id
    this.text = text
    this.bytes = text + eol
  }

  get arrived(): boolean {
    if (this.deadLetters > 0 || this.takes.some(({ from, to }) => to - from >= this.text.length)) return true
    return this.inPieces && this.gap >= this.text.length
  }

  /** Up to where its pieces arrived without one missing. */
  get gap(): number {
    let gap = 0
    for (const { from, to } of [...this.takes].sort((a, b) => a.from - b.from)) if (from <= gap) gap = Math.max(gap, to)
    return gap
  }

  get excused(): boolean {
    return this.placements.every(({ excused }) => excused !== undefined)
  }
}

/** What a file holds between two truncations. */
export class Content {
  readonly id: string
  readonly lines: Placement[] = []
  size = 0
  /** Of the last line, when it is unfinished: how much of it is written. */
  torn = 0
  /** It was truncated. */
  gone = false
  /** Its file lost a name at some time: an unfinished line goes out when it has been quiet for long enough. */
  renamed = false
  /** Its file had no name in the pattern at some time. */
  away = false
  /** There is a compressed copy of it, to which nothing is added: it may be read from there. */
  compressed = false
  /** What it is a copy of. */
  original: Content | undefined
  /** It is, or has, a copy in the pattern, so that its lines may arrive more than once, in any order. */
  copied = false
  /** Its file held nothing but the first line before it was truncated: nobody can tell whether that is written again. */
  ambiguous = false

  constructor(id: string) {
    this.id = id
  }

  get last(): Placement | undefined {
    return this.lines.at(-1)
  }
}
