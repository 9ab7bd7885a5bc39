import { CLOSE_ARRAY, COMMA, LF, OPEN_ARRAY } from '../../../lib/formats/ascii.js'
import { objectEnd } from '../../../lib/formats/json-scan.js'
import { joinLines } from '../../../lib/formats/json-text.js'
import { Refusal } from '../server/refusal.js'

const isSpace = (byte: number) => byte === 0x20 || byte === 0x09 || byte === 0x0d || byte === LF

/**
 * Converts a JSON body in place to JSON lines. The body may be an array of objects, one object, or objects separated by
 * white space. Returns the number of bytes of the lines. Changes only line ends in objects (to spaces) and separators
 * (to line ends). If the body has another form, throws a Refusal that names the line. The buffer must have room for one
 * byte after `size`.
 */
export function linesOfJson(body: Buffer, size: number): number {
  // Every scan stops at this line end after the body. Inside the body, a line end counts as white space.
  body[size] = LF
  let p = 0
  let to = 0
  let line = 1
  let count = 0
  const skipSpace = () => {
    for (; p < size && isSpace(body[p]!); p++) if (body[p] === LF) line++
  }
  const refuse = (what: string) =>
    new Refusal(400, 'malformed', `line ${line} of the body: ${what}; no events of this request were accepted`)
  /** Moves the object at `p` to the lines, without a line end. */
  const move = () => {
    const end = objectEnd(body, p, size)
    if (end < 0) throw refuse(`element ${count + 1} is not a valid JSON object`)
    line += joinLines(body, p, end)
    body.copyWithin(to, p, end)
    to += end - p
    p = end
    count++
  }

  skipSpace()
  if (p === size) return 0
  if (body[p] !== OPEN_ARRAY) {
    while (p < size) {
      move()
      if (p < size && !isSpace(body[p]!)) throw refuse(`expected white space or the end after element ${count}`)
      skipSpace()
      // This does not overwrite an unread byte, because `to` is never greater than `p`.
      body[to++] = LF
    }
    return to
  }
  p++
  skipSpace()
  while (!(count === 0 && body[p] === CLOSE_ARRAY && p < size)) {
    if (p === size) throw refuse('the array does not end')
    move()
    skipSpace()
    const next = p < size ? body[p] : undefined
    if (next !== COMMA && next !== CLOSE_ARRAY) throw refuse(`expected a comma or "]" after element ${count}`)
    body[to++] = LF
    if (next === CLOSE_ARRAY) break
    p++
    skipSpace()
  }
  p++
  skipSpace()
  if (p < size) throw refuse('something follows the array')
  return to
}
