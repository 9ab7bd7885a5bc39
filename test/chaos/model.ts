import { headerText, idOf, lineText } from './lines.js'
import type { Setup } from './scenario.js'
import { type Arrival, type Birth, Content, Failure, Line, type Part, type Placement, type Take } from './written.js'

/**
 * Knows every line that was written, and what became of it.
 *
 * What must hold: every line that could be read is delivered (or refused by the receiver and kept as a dead letter),
 * nothing else is, each of them whole, in the order of its file where one request is made at a time. A line comes again
 * only after an unclear answer, or after the daemon was started again with a checkpoint that does not cover it; when it
 * had ended in order, not even then.
 *
 * What may be lost is decided line by line at the moment it happens, and taken back when the line can be read after
 * all: `excuse` is called
 * - when a file is truncated: for what had not arrived;
 * - when a file leaves the pattern, or loses its last name, and the daemon does not have it open (as /proc says) and
 *   could not find it by its checkpoint in the folder where it was: for what had not arrived;
 * - when something is written to such a file later, and the daemon had let go of it by then;
 * - when the daemon is started: for what had not arrived of files that were truncated, have no name any more, or have
 *   only names outside of the pattern and are not in the checkpoint that it finds, or not in the folder named there.
 * What is in a file that the pattern finds at the end must have arrived, whatever happened to it on the way.
 * With a disk buffer nothing is excused that a checkpoint on the disk covers: it must be safe in the buffer. When a part
 * of the buffer is destroyed, what it may have held is excused for good.
 *
 * An unfinished line must not be delivered early: its pieces are accepted when the setup makes it wait shortly, when it
 * is longer than a line may be, or when it was truncated or compressed, or its file went away.
 */

/** A time limit that no machine is too busy for. */
const SURE_MS = 1000

export class Model {
  readonly setup: Setup
  /** Requests in the order in which they arrived, and what was in them. */
  readonly arrivals: { arrival: Arrival; parts: Part[] }[] = []
  readonly lines = new Map<string, Line>()
  readonly contents: Content[] = []
  readonly #births: Birth[] = []
  /** The daemon was told to end. */
  ending = false
  /** It was once, and may not have delivered all of what it had to. */
  #buffered = false
  readonly #header: string
  readonly #headers: Placement[] = []
  headersArrived = 0
  /** Lines that are whole and have not arrived. */
  readonly #waiting = new Set<Line>()
  readonly #inPieces: Line[] = []
  /** Where a long line goes on. */
  #nextPiece: { readonly line: Line; at: number } | undefined

  constructor(setup: Setup) {
    this.setup = setup
    this.#header = headerText(setup)
  }

  newContent(): Content {
    const content = new Content(`f${this.contents.length}`)
    this.contents.push(content)
    return content
  }

  /** The next line of a file, to be written; undefined number of bytes: the header. */
  makeLine(content: Content, ahead: number, bytes: number | undefined): Line {
    const id = `${content.id}.${content.lines.length + ahead}`
    const text = bytes === undefined ? this.#header : lineText(id, bytes, this.setup)
    return new Line(id, text, this.setup.crlf ? '\r\n' : '\n')
  }

  /** `written` bytes of these lines, in order, now stand at the end of the content. */
  wrote(content: Content, lines: readonly Line[], written: number): void {
    for (const line of lines) {
      if (written === 0) break
      const fresh = content.last?.line !== line
      if (fresh) this.#place(line, content)
      const length = Math.min(written, line.bytes.length - content.torn)
      content.size += length
      content.torn += length
      written -= length
      if (content.torn === line.bytes.length) {
        content.torn = 0
        line.whole = true
        if (!this.isHeader(line) && !line.excused) this.#waiting.add(line)
      } else this.#comesInPieces(line)
    }
  }

  #place(line: Line, content: Content): void {
    const excused = this.isHeader(line) && content.ambiguous ? 'the same as before' : undefined
    const placement = {
      line,
      content,
      start: content.size,
      excused,
      kept: false,
      begun: false,
      destroyed: false,
      displaced: false,
    }
    content.lines.push(placement)
    line.placements.push(placement)
    this.lines.set(line.id, line)
    if (this.isHeader(line)) this.#headers.push(placement)
    if (line.text.length > this.setup.lineBytes) this.#comesInPieces(line)
  }

  #comesInPieces(line: Line): void {
    if (line.inPieces) return
    line.inPieces = true
    this.#inPieces.push(line)
  }

  isHeader(line: Line): boolean {
    return line.text === this.#header
  }

  /**
   * Whether it need not be opened: an empty file has nothing to be read, and one with nothing but the first line, which
   * all files have, may be taken for a copy of another.
   */
  isBare(content: Content): boolean {
    return content.lines.every(({ line }) => this.isHeader(line))
  }

  /** A file that holds the same, and is not in the pattern. */
  copy(content: Content): Content {
    const copy = this.newContent()
    copy.original = content
    for (const { line, start } of content.lines) {
      const placement = {
        line,
        content: copy,
        start,
        excused: 'only a copy',
        kept: false,
        begun: false,
        destroyed: false,
        displaced: false,
      }
      copy.lines.push(placement)
      line.placements.push(placement)
      if (this.isHeader(line)) this.#headers.push(placement)
    }
    copy.size = content.size
    copy.torn = content.torn
    return copy
  }

  /** The file is in the pattern now: if it is a copy, it is read like any other. */
  found(content: Content | undefined): void {
    for (let at = content; at?.original; at = at.original) at.copied = at.original.copied = true
    if (content?.original) this.insist(content)
  }

  /** What had not arrived of it is lost by nature. Returns what the file holds from now on. */
  truncated(content: Content): Content {
    content.gone = true
    // What was read of a line that was being read goes out.
    // After a kill what had arrived may just be read again.
    for (const { line } of content.lines) if (!line.arrived || this.lives > 1) this.#comesInPieces(line)
    this.excuse(content, 'truncated before it arrived')
    const next = this.newContent()
    next.ambiguous = content.torn === 0 && content.lines.every(({ line }) => this.isHeader(line))
    return next
  }

  /** What has not arrived of this need not any more. */
  excuse(content: Content, reason: string): void {
    for (const placement of content.lines) {
      const { line } = placement
      if (placement.kept) continue
      if (this.isHeader(line) || !line.arrived) placement.excused ??= reason
      if (line.excused) this.#waiting.delete(line)
    }
  }

  /** A checkpoint on the disk covers the content up to there. */
  keep(content: Content, offset: number): void {
    for (const placement of content.lines) {
      if (placement.start + placement.line.bytes.length <= offset) placement.kept = true
      else if (placement.start < offset) placement.begun = true
    }
  }

  /** A part of the disk buffer is destroyed. */
  destroyed(): void {
    for (const content of this.contents) {
      for (const placement of content.lines) {
        // It may be read again, and comes behind what came out of the buffer.
        if (!placement.line.arrived) placement.displaced = true
        if (!placement.kept && !placement.begun) continue
        placement.kept = false
        placement.begun = false
        if (this.isHeader(placement.line) || !placement.line.arrived) {
          placement.destroyed = true
          placement.excused = 'destroyed in the buffer'
        }
        if (placement.line.excused) this.#waiting.delete(placement.line)
      }
    }
  }

  /** All of it can be read, now and later. */
  insist(content: Content): void {
    for (const placement of content.lines) {
      const { line } = placement
      if (placement.destroyed || (this.isHeader(line) && content.ambiguous)) continue
      placement.excused = undefined
      if (line.whole && !line.arrived && !this.isHeader(line)) this.#waiting.add(line)
    }
  }

  /** The texts of a request that the receiver keeps. */
  arrived(arrival: Arrival, texts: readonly string[]): void {
    const parts = texts.flatMap(text => this.#recognize(text))
    this.arrivals.push({ arrival, parts })
    for (const part of parts) {
      const { line } = part
      line.takes.push({ ...part, arrival })
      if (line.arrived) this.#waiting.delete(line)
    }
  }

  /** The texts of a request that is refused for good. */
  refused(texts: readonly string[]): void {
    for (const text of texts) for (const { line } of this.#recognize(text, false)) line.refused = true
  }

  /** A text in the dead letters. */
  deadLetter(text: string): void {
    for (const { line } of this.#recognize(text)) {
      if (!line.refused) throw new Failure('invented', `a dead letter of what nobody refused: ${shown(text)}`)
      line.deadLetters++
      this.#waiting.delete(line)
    }
  }

  #recognize(text: string, counts = true): Part[] {
    if (text.endsWith('\r')) text = text.slice(0, -1)
    if (text === this.#header) {
      if (counts) this.headersArrived++
      return []
    }
    const line = this.lines.get(idOf(text) ?? '')
    if (line?.text === text) return [{ line, from: 0, to: text.length, vague: false }]
    const next = this.#nextPiece
    if (next && text.length >= 16 && next.line.bytes.startsWith(text, next.at)) {
      const part = { line: next.line, from: next.at, to: Math.min(next.at + text.length, next.line.text.length) }
      next.at += text.length
      return [{ ...part, vague: false }]
    }
    const found = this.#inPieces.flatMap(line => {
      // What is short may stand in many places: one that is missing comes first.
      const from = line.bytes.startsWith(text, line.gap) ? line.gap : line.bytes.indexOf(text)
      return from < 0 ? [] : [{ line, from, to: Math.min(from + text.length, line.text.length), vague: false }]
    })
    if (found.length === 0) throw new Failure('damaged', `nobody wrote ${shown(text)}`)
    if (!found.some(({ line }) => this.#mayComeInPieces(line)))
      throw new Failure('early', `a piece of the unfinished line ${found[0]!.line.id}: ${shown(text)}`)
    for (const { line } of found) line.broken = true
    this.#nextPiece = { line: found[0]!.line, at: found[0]!.to }
    return found.length > 1 ? found.map(part => ({ ...part, vague: true })) : found
  }

  #mayComeInPieces({ text, placements, broken }: Line): boolean {
    const { partialMs, rotateWaitMs, lineBytes } = this.setup
    if (broken || partialMs < 1000 || text.length > lineBytes) return true
    return placements.some(({ content }) => {
      const { gone, compressed, renamed, away } = content
      // At an end, what the next start could not find goes out.
      const over = ((renamed || away) && rotateWaitMs < 1000) || (away && (this.ending || this.#buffered))
      return gone || compressed || over
    })
  }

  started(birth: Birth): void {
    this.#births.push(birth)
    // What went out as it ended may be in the buffer.
    if (this.ending && this.setup.buffer === 'disk') this.#buffered = true
    this.ending = false
  }

  get lives(): number {
    return this.#births.length
  }

  /** What must still arrive of one file, or of all. */
  waiting(content?: Content): Line[] {
    const lines = [...this.#waiting]
    return content ? lines.filter(line => line.placements.some(placement => placement.content === content)) : lines
  }

  get headersMissing(): number {
    const wanted = this.#headers.filter(
      ({ line, excused }) => line.whole && !line.inPieces && excused === undefined,
    ).length
    return wanted - this.headersArrived
  }

  /** Throws the first failure that there is at the end of a run. */
  verify(): void {
    const [lost] = this.waiting()
    if (lost) throw new Failure('lost', `${this.waiting().length} lines, the first of them ${lost.id}`)
    if (this.headersMissing > 0) throw new Failure('lost', `${this.headersMissing} of the first lines`)
    this.#verifyRepeats()
    if (this.setup.inFlight === 1) for (const content of this.contents) if (!content.copied) this.#verifyOrder(content)
  }

  #verifyRepeats(): void {
    const sure = this.lives <= 1 && this.setup.timeoutMs >= SURE_MS
    const calm = sure && this.arrivals.every(({ arrival }) => arrival.clear)
    for (const line of this.lines.values()) {
      if (this.isHeader(line) || line.placements.some(({ content }) => content.copied)) continue
      if (calm && line.deadLetters + (line.takes.length > 0 && !line.inPieces ? line.takes.length : 0) > 1)
        throw new Failure('repeated', `${line.id}, though nothing was unclear`)
      const takes = line.takes.filter(({ vague }) => !vague).sort(byNumber)
      for (const [i, take] of takes.entries()) {
        const before = takes.slice(0, i).findLast(({ from, to }) => from < take.to && take.from < to)
        if (before && !line.placements.some(placement => this.#mayRepeat(line, placement, before, take))) {
          const lives = `in lives ${before.arrival.life} and ${take.arrival.life}`
          throw new Failure('repeated', `${line.id}, ${lives}, without a reason`)
        }
      }
    }
    if (calm && this.headersArrived > this.#headers.length) throw new Failure('repeated', 'a first line')
  }

  #mayRepeat(line: Line, placement: Placement, before: Take, again: Take): boolean {
    const { content, start } = placement
    const [first, last] = [before.arrival.life, again.arrival.life]
    if (!before.arrival.clear || last < first) return true
    // On a busy machine an answer may be late for the daemon and not for the receiver.
    if (first === last && this.setup.timeoutMs < SURE_MS) return true
    const rereadAt = ({ content, start }: Placement, { from }: Birth) =>
      start + before.to > (from.get(content) ?? Number.POSITIVE_INFINITY)
    const reread = (birth: Birth) => rereadAt(placement, birth)
    if (this.#births.slice(first, last).some(birth => !birth.clean && reread(birth))) return true
    if (this.setup.buffer === 'memory') return false
    // What a killed daemon had put in the buffer and in no checkpoint may be delivered from there before it is read again.
    const own = this.#births[first - 1]!
    const wasThere = !own.clean && reread(own) && (own.sizes.get(content) ?? 0) > start
    if (wasThere && this.#births.slice(first, last).some(reread)) return true
    // What a killed daemon had put in the buffer and not in a checkpoint is read again some time, however it ended since,
    // also from a copy of what the file was at its start.
    const births = this.#births.slice(0, last)
    const covered = births.findLastIndex(birth => !line.placements.some(place => rereadAt(place, birth))) + 1
    if (births.slice(covered).some(({ clean }) => !clean)) return true
    // A killed daemon may have delivered from the buffer what its ledger did not say yet, and what was read again may
    // stand there twice. It comes once more however often the daemon ends in order, until one leaves the buffer empty.
    const calm = births.findLastIndex(({ clean, drained }) => clean && drained) + 1
    return first >= calm && births.slice(calm).some(({ clean, sizes }) => !clean && (sizes.get(content) ?? 0) > start)
  }

  /** Each line after the one before it, or one that comes again. */
  #verifyOrder(content: Content): void {
    const numbers = new Map(content.lines.map(({ line }, i) => [line, i]))
    let last = -1
    let life = 0
    for (const { arrival, parts } of [...this.arrivals].sort(byNumber)) {
      // What a killed daemon had sent may be handled after what the next one sends.
      if (arrival.life < life) continue
      life = arrival.life
      for (const { line, vague } of parts) {
        const number = numbers.get(line)
        if (number === undefined || vague) continue
        for (let skipped = last + 1; skipped < number; skipped++) {
          const { line: missed, excused, displaced } = content.lines[skipped]!
          if (excused === undefined && !displaced && missed.whole && !this.isHeader(missed) && !missed.refused)
            throw new Failure('order', `${line.id} before ${missed.id}`)
        }
        last = number
      }
    }
  }
}

/** In the order in which the requests began: one that was given up may be handled after the next one. */
function byNumber(a: { arrival: Arrival }, b: { arrival: Arrival }): number {
  return a.arrival.number - b.arrival.number
}

function shown(text: string): string {
  const cut = text.length > 120 ? `${text.slice(0, 60)} ... ${text.slice(-60)}` : text
  return JSON.stringify(cut)
}
