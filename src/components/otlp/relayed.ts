import { OPEN_OBJECT } from '../../lib/formats/ascii.js'
import { findMember, found, MemberName } from '../../lib/formats/json-members.js'
import { valueEnd } from '../../lib/formats/json-scan.js'
import { tokenText } from '../../lib/formats/json-token.js'
import { eachMember } from './any-value.js'
import { MOST_STEPS } from './record-json.js'
import type { JsonAttribute, RecordScope } from './records.js'

const [NAME, VERSION, ATTRIBUTES] = [new MemberName('name'), new MemberName('version'), new MemberName('attributes')]

/** The attributes in an object, as `nestedAttributes` wrote it: nested objects are names with dots. */
export function flatAttributes(json: string, levels = MOST_STEPS): JsonAttribute[] {
  const b = Buffer.from(`${json}\n`)
  const flat: JsonAttribute[] = []
  const add = (start: number, end: number, prefix: string, level: number): number =>
    eachMember(b, start, end, (name, nameStart, nameEnd, _hash, _json, from) => {
      const until = valueEnd(b, from, end)
      const whole = `${prefix}${name.toString('utf8', nameStart, nameEnd)}`
      const isNested = b[from] === OPEN_OBJECT && level < levels && until > from + 2
      if (isNested) add(from, until, `${whole}.`, level + 1)
      else flat.push([whole, Buffer.concat([b.subarray(from, until), LINE_END])])
      return until
    })
  if (b[0] === OPEN_OBJECT) add(0, b.length - 1, '', 0)
  return flat
}

export function scopeIn(json: string): RecordScope | undefined {
  const b = Buffer.from(`${json}\n`)
  const end = b.length - 1
  if (b[0] !== OPEN_OBJECT) return undefined
  const textOf = (name: MemberName) => (findMember(b, 0, end, name) ? tokenText(b, found.start, found.end) : '')
  const attributes = findMember(b, 0, end, ATTRIBUTES) ? b.toString('utf8', found.start, found.end) : ''
  return { name: textOf(NAME), version: textOf(VERSION), attributes: flatAttributes(attributes, 0) }
}

const LINE_END = Buffer.from('\n')
