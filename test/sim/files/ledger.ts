import type { FileNode } from '../disk.js'
import type { Exceptions } from './exceptions.js'

/** A line that a program wrote, and its fate. */
export interface Line {
  /** Name of the log, and the number of the line in it. */
  readonly log: string
  readonly number: number
  readonly text: string
  /** It may be lost or torn by right: it was written between a copy and the truncation. */
  isOptional: boolean
  /** How often it arrived. */
  arrivals: number
  /** Whether it was delivered. */
  isDelivered: boolean
  /** Whether a saved position is behind it. */
  isSaved: boolean
  /** Whether it may arrive once more. */
  mayRepeat: boolean
  /** Whether its file was truncated before it was delivered. */
  wasUnread: boolean
  /** Whether its file had been renamed before it was complete. */
  isLate: boolean
  /** Whether a file that had it was compressed. */
  wasCompressed: boolean
  /** Whether the source knew that the file had it when that was renamed, deleted or truncated; undefined: it was not. */
  wasSeen: boolean | undefined
  /** Whether a call about its file failed, and no line of the file has arrived since, while it was not delivered. */
  wasRefused: boolean
  /** Whether a call about a file that has it, or had it before a truncation, failed. */
  hadErrors: boolean
}

const MOST_SHOWN = 12

/** Everything that was written and that arrived, and the promises about it. */
export class Ledger {
  readonly #exceptions: Exceptions
  readonly #deletesUnread: boolean
  readonly #logs = new Map<string, Line[]>()
  /** The lines in each file, with the offsets of their ends. */
  readonly #contents = new Map<FileNode, { line: Line; end: number }[]>()
  /** The files about which a call failed, and of which no line has arrived since. */
  readonly #refused = new Set<FileNode>()
  /** The lines that each file had before its truncations. */
  readonly #truncated = new Map<FileNode, readonly Line[]>()
  /** Parts of lines that a truncation tore. */
  readonly #torn: string[] = []
  /** The last line of each file name that arrived in the present run of the source. */
  #last = new Map<string, Line>()
  lines = 0

  constructor(exceptions: Exceptions, deletesUnread: boolean) {
    this.#exceptions = exceptions
    this.#deletesUnread = deletesUnread
  }

  /** Makes the next line of a log. */
  next(log: string, bytes: number): Line {
    const lines = this.#logs.get(log) ?? []
    this.#logs.set(log, lines)
    const number = lines.length
    const mark = `${log}-${number} `
    // No part of a line is equal to a part of another one.
    const at = number * 16_381 + log.charCodeAt(0) * 700_001
    const filler = FILLER.substr(at % (FILLER.length - 16_000), Math.max(0, bytes - mark.length))
    let text = mark
    for (let from = 0; from < filler.length; from += 900)
      text += from + 900 > filler.length ? filler.slice(from) : filler.slice(from + mark.length, from + 900) + mark
    const fate = {
      isOptional: false,
      isDelivered: false,
      isSaved: false,
      mayRepeat: false,
      wasSeen: undefined,
      wasCompressed: false,
      isLate: false,
      wasUnread: false,
      wasRefused: false,
      hadErrors: false,
    }
    const line: Line = { log, number, text, arrivals: 0, ...fate }
    lines.push(line)
    this.lines++
    return line
  }

  /** The file has this line now. */
  put(node: FileNode, line: Line): void {
    this.#in(node).push({ line, end: node.size })
    line.wasRefused = this.#refused.has(node)
  }

  /** The file has what the other one has, as far as it is that long. */
  copy(from: FileNode, to: FileNode, bytes: number): void {
    this.#contents.set(
      to,
      this.#in(from).filter(({ end }) => end <= bytes),
    )
  }

  /** The file is empty now. */
  clear(node: FileNode): void {
    const lines = this.#in(node).map(({ line }) => line)
    for (const line of lines) line.wasUnread = !line.isDelivered
    this.#truncated.set(node, [...(this.#truncated.get(node) ?? []), ...lines])
    this.#contents.delete(node)
  }

  /** The file is the compressed content of the other one. */
  compress(from: FileNode, to: FileNode): void {
    this.copy(from, to, from.size)
    for (const { line } of this.#in(to)) line.wasCompressed = true
  }

  /** A call about the file failed. */
  refused(node: FileNode): void {
    this.#refused.add(node)
    for (const line of this.#truncated.get(node) ?? []) line.hadErrors = true
    for (const { line } of this.#in(node)) {
      line.hadErrors = true
      line.wasRefused ||= !line.isDelivered
    }
  }

  /** A truncation may have torn this line. */
  tore({ text }: Line): void {
    this.#torn.push(text)
  }

  /** A rotation takes the file away, or its content, of which the source saw so many bytes. */
  takesAway(node: FileNode, seen: number): void {
    for (const { line, end } of this.#in(node)) line.wasSeen = line.wasSeen === true || end <= seen
  }

  /** Whether everything in the file was delivered. */
  isDelivered(node: FileNode): boolean {
    return this.#in(node).every(({ line }) => line.isDelivered || line.isOptional)
  }

  #in(node: FileNode): { line: Line; end: number }[] {
    let lines = this.#contents.get(node)
    if (!lines) this.#contents.set(node, (lines = []))
    return lines
  }

  /** The line of this text arrived under this name; undefined: it is a part of a torn line. */
  arrived(path: string, text: string): Line | undefined {
    const [, log = '', number = ''] = /^(\w+)-(\d+) /.exec(text) ?? []
    const line = this.#logs.get(log)?.[Number(number)]
    if (line?.text !== text) {
      // A line that may be lost, or whose file is deleted unread, may have been read in part, even within its number.
      const isPart = (one: Line) => (one.isOptional || this.#deletesUnread) && one.text.startsWith(text)
      const mayBePart = line ? isPart(line) : [...this.#logs.values()].some(lines => lines.some(isPart))
      if (!mayBePart && !this.#torn.some(torn => torn.includes(text)))
        this.#exceptions.violate('torn', `a line arrived that nobody wrote: ${text.slice(0, 80)}`, line)
      return undefined
    }
    line.arrivals++
    if (line.arrivals > 1 && !line.mayRepeat)
      this.#exceptions.violate('twice', `twice: ${log}-${number} under ${path}`, line)
    line.mayRepeat = false
    for (const node of this.#refused) if (this.#in(node).some(one => one.line === line)) this.#refused.delete(node)
    if (line.isOptional || line.arrivals > 1) return line
    const last = this.#last.get(path)
    if (last && last.log === log && last.number > line.number) {
      const text = `order: ${log}-${number} came after ${log}-${last.number} under ${path}`
      const wasCompressed = line.wasCompressed || last.wasCompressed
      const wasRefused = line.wasRefused || last.wasRefused
      this.#exceptions.violate('order', text, { ...line, wasCompressed, wasRefused })
    }
    this.#last.set(path, line)
    return line
  }

  /** The source begins again: what is not behind a saved position may arrive once more. */
  restarted(): void {
    this.rerun()
    for (const line of this.#all()) line.mayRepeat = line.arrivals > 0 && !line.isSaved
  }

  /** The source is run again, and begins with what comes first. */
  rerun(): void {
    this.#last = new Map()
  }

  /** A batch came back: what is behind a position arrives again, too. */
  cameBack(behindNone: ReadonlySet<Line>): void {
    for (const line of this.#all())
      if (line.arrivals > 0 && !line.isSaved && !behindNone.has(line)) line.mayRepeat = true
  }

  *#all(): Iterable<Line> {
    for (const lines of this.#logs.values()) yield* lines
  }

  /** The lines that must still be delivered. */
  missing(): Line[] {
    const missing: Line[] = []
    for (const line of this.#all()) if (!line.isDelivered && !line.isOptional) missing.push(line)
    return missing
  }

  /** The lines that some file has. */
  onDisk(nodes: ReadonlyMap<string, FileNode>): Map<Line, string> {
    const found = new Map<Line, string>()
    for (const [path, node] of nodes) for (const { line } of this.#in(node)) found.set(line, path)
    return found
  }
}

export function namesOf(lines: readonly Line[]): string {
  const shown = lines.slice(0, MOST_SHOWN).map(({ log, number }) => `${log}-${number}`)
  return shown.join(', ') + (lines.length > MOST_SHOWN ? ` and ${lines.length - MOST_SHOWN} more` : '')
}

/** Random letters. */
const FILLER = letters(2 ** 21)

function letters(count: number): string {
  const bytes = Buffer.allocUnsafe(count)
  let random = 1
  for (let i = 0; i < count; i++) {
    random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0
    bytes[i] = 97 + ((random >>> 16) % 26)
  }
  return bytes.toString('latin1')
}
