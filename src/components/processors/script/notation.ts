import { jsonText } from '../../../lib/formats/json-text.js'

/** Digits of a number that may not be exact. */
const LONG_NUMBER = /[\d.]{16}/
/** The beginning of an escape of a character by its number. */
const ESCAPE = /\\u[\da-f]{0,3}$/i

const isDigit = (character: string | undefined) => character !== undefined && character >= '0' && character <= '9'

/**
 * Whether `text`, which JSON.stringify has written, is the object of a line that was written otherwise: with spaces, other
 * escapes, or numbers such as 1.0 and 12345678901234567890. Reads the line only if the first difference can be that.
 */
export function isSameObject(line: string, text: string): boolean {
  return text === line || (differsInNotation(line, text) && jsonText(JSON.parse(line)) === text)
}

function differsInNotation(line: string, text: string): boolean {
  // Other notations are rarely shorter than that of JSON.stringify: a field was appended.
  const last = line.length - 1
  if (text.length > line.length && text[last] === ',' && text[last - 1] === line[last - 1]) return false
  let at = 0
  while (at < line.length && line.charCodeAt(at) === text.charCodeAt(at)) at++
  const character = line[at]
  switch (character) {
    case ' ':
    case '\t':
    case '\r':
    case '\\':
    case '.':
    case '+':
    case '-':
      return true
    case 'e':
    case 'E':
      return isDigit(line[at - 1])
    default:
  }
  if (isDigit(character) && (!isDigit(text[at]) || LONG_NUMBER.test(line.slice(Math.max(0, at - 16), at + 16))))
    return true
  return line[at - 1] === '\\' || ESCAPE.test(line.slice(Math.max(0, at - 5), at))
}
