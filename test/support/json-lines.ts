import type { Seeded } from './seeded.js'

/** Lines that are JSON objects, nearly so, or not at all, in every way of writing that JSON allows. */

/** Those of the paths that are read come more often. */
const NAMES = [
  ...['a', 'a', 'a', 'b', 'b', 'c', 'list', 'list', 'x-y', 'é', 'a.b', '', '"', '\\', '/', '__proto__', 'constructor'],
  ...['raw', '😀', 'a\u0000b'],
]
const NESTED = new Set(['a', 'b', '"', 'é', '__proto__'])
const CHARACTERS = [
  ...'aZ09 _-./\\"\'{}[],:<\u007f\u2028\u2029éß\u0000\n\r\t\b\f\u001f€漢',
  '😀',
  '𝄞',
  '\ufeff',
  '\ufffd',
  '\u{10ffff}',
]
const SHORT_ESCAPES: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '/': '\\/',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
}
const NUMBERS = [
  ...['0', '-0', '1', '-1', '7', '42', '500', '-273', '123456789012345', '999999999999999', '1234567890123456'],
  ...['-999999999999999', '9007199254740993', '12345678901234567890', '0.1', '-0.0', '1.0', '1.50', '3.14159265358979'],
  ...['0.000001', '1e3', '1E3', '1e+3', '1e-3', '1E400', '-1e400', '1e-400', '0e0', '-0e-7', '2.5e10', '1e21', '1e-7'],
  ...['0.30000000000000004', '123456789.123456', '99999999999999.9', '4.35', '1.005', '179769313486231570000'],
]
/** What a mutation puts in: the bytes that mean something to JSON, and some that mean nothing anywhere. */
const INSERTIONS = [
  ...[
    '{',
    '}',
    '[',
    ']',
    '"',
    ',',
    ':',
    '\\',
    ' ',
    '\t',
    '\r',
    '\u0000',
    '\u000b',
    '\u001f',
    '\u007f',
    '\u00a0',
    '\ufeff',
  ],
  ...[
    '0',
    '1',
    '9',
    '.',
    'e',
    'E',
    '+',
    '-',
    't',
    'f',
    'n',
    'u',
    '/',
    "'",
    'true',
    'null',
    '\\u',
    '\\ud800',
    '\\x',
    'NaN',
    '{}',
  ],
].map(text => Buffer.from(text))
/** What is nearly a value. */
const BROKEN = [
  ...'01 -01 00 00.1 -01.5 0. .5 1. 1..2 1.2.3 - --1 +1 1- 0x1 1e 1e+'.split(' '),
  ...[
    '',
    'tru',
    'nul',
    'fals',
    'truee',
    'nulll',
    'falsee',
    'True',
    '"\\x"',
    '"',
    '"a\u0001',
    '"a\u0001"',
    '"\\',
    '"\\\\\\"',
  ],
]
const INVALID_UTF8 = [[0x80], [0xff], [0xc3], [0xe2, 0x82], [0xed, 0xa0, 0x80], [0xf0, 0x9f, 0x98], [0xc0, 0x80]].map(
  bytes => Buffer.from(bytes),
)
const TOO_MANY = 6

/**
 * Some newer engines' JSON.parse takes an escaped name for another one, once it has seen certain others. With them, lines
 * with escaped names are only held to whether they are objects.
 */
export const MIXES_NAMES_UP = (() => {
  JSON.parse('{"h":[],"\\\\":0}')
  return !('"' in JSON.parse('{"h":1,"\\"":2}'))
})()
const ESCAPED_NAME = /"(?:[^"\\]|\\.)*\\.(?:[^"\\]|\\.)*"\s*:/

/** Whether the engine may read a name of the line wrongly. */
export function isKnownAmiss(line: Buffer): boolean {
  return MIXES_NAMES_UP && ESCAPED_NAME.test(line.toString())
}

/** A member of the lines that programs write: what is before its value, what that is, and the members in it. */
interface Shape {
  readonly head: string
  readonly kind: 'scalar' | 'object' | 'strings' | 'objects'
  readonly inside: readonly Shape[]
}

export class JsonLines {
  readonly #random: Seeded
  #shapes: readonly Shape[] = []

  constructor(random: Seeded) {
    this.#random = random
  }

  /** A line without an LF in it; of a hundred about sixty are objects. */
  line(): Buffer {
    const random = this.#random
    const kind = random.next()
    if (kind < 0.04) return Buffer.from(this.#space() + this.#value(2) + this.#space())
    if (kind < 0.05) return Buffer.from(`\ufeff${this.#object(1)}`)
    if (kind < 0.06)
      return Buffer.from(random.pick(['', ' ', '{', '}', '{}', '{}{}', '{},', 'null', 'plain text', '{"a"', '{"a":']))
    const line = Buffer.from(this.#space() + this.#object(random.below(5)) + this.#space())
    return random.chance(0.35) ? this.#mutated(line) : line
  }

  /**
   * A line as programs write them: mostly with the members of the line before, in their order and written as there, also
   * in nested objects and lists, but other values. Like `line`, it may be broken.
   */
  shaped(): Buffer {
    const random = this.#random
    if (this.#shapes.length === 0 || random.chance(0.05)) this.#shapes = this.#newShapes(0)
    const members = this.#likelyMembers(this.#shapes)
    if (random.chance(0.1)) members.splice(random.below(members.length + 1), 0, `"b":${this.#value(1)}`)
    const behind = random.chance(0.08) ? random.pick([' ', ' ', '}', ',', '{}', 'x', '"']) : ''
    const end = random.chance(0.03) ? random.pick([']', ':', 'x', '"', '']) : '}'
    const line = Buffer.from(`{${members.join(random.chance(0.05) ? ' , ' : ',')}${end}${behind}`)
    return random.chance(0.35) ? this.#mutated(line) : line
  }

  #likelyMembers(shapes: readonly Shape[]): string[] {
    const random = this.#random
    const members = shapes
      .filter(() => !random.chance(0.03))
      .map(shape => shape.head + (random.chance(0.02) ? random.pick(BROKEN) : this.#likely(shape)))
    // What follows a container comes to lie in it, where it is expected as little as it is allowed in a list.
    const at = members.findIndex(member => /[}\]]$/.test(member))
    if (at < 0 || at + 1 === members.length || !random.chance(0.05)) return members
    const [member, next] = members.slice(at, at + 2)
    return members.toSpliced(at, 2, `${member!.slice(0, -1)},${next}${member!.slice(-1)}`)
  }

  #likely({ kind, inside }: Shape): string {
    const random = this.#random
    // Where another kind of value is expected.
    if (kind !== 'scalar' && random.chance(0.05)) kind = random.pick(['scalar', 'object', 'strings', 'objects'])
    if (kind === 'object') return this.#container('{', this.#likelyMembers(inside), '}')
    if (kind === 'scalar') return random.chance(0.8) ? random.pick([this.#string(), this.#number()]) : this.#value(1)
    const elements = Array.from({ length: random.below(4) }, () => {
      if (random.chance(0.05)) return this.#value(1)
      if (kind === 'strings') return this.#string()
      const members = this.#likelyMembers(inside)
      return random.chance(0.02) ? members.join(',') : this.#container('{', members, '}')
    })
    return this.#container('[', elements, ']')
  }

  /** Now and then with spaces, or with one of the faults that a reader overlooks who expects what was there before. */
  #container(open: string, parts: readonly string[], close: string): string {
    const random = this.#random
    const inside = parts.join(',')
    if (random.chance(0.95)) return open + inside + close
    return random.pick([
      `${open} ${inside} ${close}`,
      `${open}\t${parts.join(' , ')}\r${close} `,
      `${open}${inside}${close === '}' ? ']' : '}'}`,
      `${open === '{' ? '[' : '{'}${inside}${close}`,
      `${open === '{' ? '[' : '{'}${inside}${close === '}' ? ']' : '}'}`,
      `${open}${inside}`,
      `${inside}${close}`,
      `${open}${inside}${close}${close}`,
      `${open}${open}${inside}${close}`,
      `${open}${inside},${close}`,
      `${open},${inside}${close}`,
      `${open}${parts.join('')}${close}`,
      `${open}"unnamed",${inside}${close}`,
      `${open}${inside},"unnamed"${close}`,
      `${open}{},${inside}${close}`,
      `${open}"b":1,${inside}${close}`,
    ])
  }

  /** Names of up to 40 bytes, some of them twice, and what their values are. */
  #newShapes(depth: number): Shape[] {
    const random = this.#random
    const [before, behind] = random.pick([
      ['', ''],
      ['', ''],
      ['', ' '],
      [' ', ' '],
      ['\t', '  '],
    ] as const)
    return Array.from({ length: 1 + random.below(depth === 0 ? 12 : 5) }, () => {
      const name = random.chance(0.5)
        ? random.pick(NAMES)
        : 'longer than eight, and than all'.slice(0, random.below(40))
      const head = `${before}${random.chance(0.03) ? this.#encode(name) : JSON.stringify(name)}:${behind}`
      const isNested = depth < 3 && random.chance(0.3)
      const kind = isNested ? random.pick(['object', 'object', 'strings', 'objects'] as const) : 'scalar'
      return { head, kind, inside: isNested ? this.#newShapes(depth + 1) : [] }
    })
  }

  /** A valid object whose member `a` is nested so deep. */
  deep(depth: number): Buffer {
    let open = ''
    let close = ''
    for (let level = 0; level < depth; level++) {
      const array = this.#random.chance(0.5)
      open += array ? '[' : '{"a":'
      close = (array ? ']' : '}') + close
    }
    return Buffer.from(`{"a":${open}1${close}}`)
  }

  #object(depth: number): string {
    const random = this.#random
    const members: string[] = []
    for (let count = random.below(TOO_MANY); count > 0; count--) {
      const name = random.pick(NAMES)
      const written = this.#space() + this.#encode(name) + this.#space()
      members.push(`${written}:${this.#space()}${this.#member(name, depth)}${this.#space()}`)
    }
    return `{${members.join(',') || this.#space()}}`
  }

  /** Where a path goes through the name, what the path needs, as a rule. */
  #member(name: string, depth: number): string {
    if (depth === 0 || this.#random.chance(0.4)) return this.#value(depth)
    if (name === 'list') return this.#array(depth - 1)
    return NESTED.has(name) ? this.#object(depth - 1) : this.#value(depth)
  }

  #array(depth: number): string {
    const items: string[] = []
    for (let count = this.#random.below(TOO_MANY); count > 0; count--) {
      items.push(this.#space() + this.#value(depth) + this.#space())
    }
    return `[${items.join(',') || this.#space()}]`
  }

  #value(depth: number): string {
    const random = this.#random
    const kind = random.below(depth > 0 ? 10 : 6)
    if (kind < 2) return this.#string()
    if (kind < 4) return this.#number()
    if (kind < 6) return random.pick(['true', 'false', 'null'])
    return kind < 8 ? this.#object(depth - 1) : this.#array(depth - 1)
  }

  #number(): string {
    const random = this.#random
    if (random.chance(0.5)) return random.pick(NUMBERS)
    const whole = String(random.below(10 ** random.below(12)))
    const fraction = random.chance(0.4) ? `.${String(random.next()).slice(2, 3 + random.below(15))}` : ''
    const exponent = random.chance(0.2) ? random.pick(['e', 'E']) + random.pick(['', '+', '-']) + random.below(30) : ''
    return (random.chance(0.3) ? '-' : '') + whole + fraction + exponent
  }

  #string(): string {
    const random = this.#random
    let text = ''
    for (let count = random.chance(0.05) ? 200 : random.below(12); count > 0; count--) text += random.pick(CHARACTERS)
    return this.#encode(text)
  }

  /** Each character as it is, as its short escape, or as \u, whichever is allowed. */
  #encode(text: string): string {
    const random = this.#random
    const escaping = random.pick([0, 0, 0.1, 1])
    let encoded = ''
    for (const character of text) {
      const short = SHORT_ESCAPES[character]
      const needed = character < ' ' || character === '"' || character === '\\'
      if (!needed && !random.chance(escaping)) encoded += character
      else if (short && random.chance(0.6)) encoded += short
      else for (let i = 0; i < character.length; i++) encoded += this.#unicode(character.charCodeAt(i))
    }
    if (random.chance(0.02)) encoded += random.pick(['\\ud800', '\\uDFFF', '\\ud83d\\ud83d', '\\ude00\\ud83d'])
    return `"${encoded}"`
  }

  #unicode(unit: number): string {
    const hex = unit.toString(16).padStart(4, '0')
    return `\\u${this.#random.chance(0.5) ? hex : hex.toUpperCase()}`
  }

  #space(): string {
    const random = this.#random
    if (random.chance(0.7)) return ''
    return random.pick([' ', '\t', '\r', '  ', ' \t ', ' \r\t'])
  }

  #mutated(line: Buffer): Buffer {
    const random = this.#random
    for (let count = 1 + random.below(2); count > 0; count--) {
      const at = random.below(line.length + 1)
      const to = Math.min(line.length, at + 1 + random.below(3))
      const insertion = random.chance(0.15) ? random.pick(INVALID_UTF8) : random.pick(INSERTIONS)
      const kind = random.below(5)
      if (kind === 0) line = Buffer.concat([line.subarray(0, at), line.subarray(to)])
      else if (kind === 1) line = line.subarray(0, at)
      else if (kind === 2) line = Buffer.concat([line.subarray(0, at), insertion, line.subarray(to)])
      else if (kind === 3) line = Buffer.concat([line.subarray(0, at), insertion, line.subarray(at)])
      else line = Buffer.concat([line.subarray(0, to), line.subarray(at)])
    }
    return line
  }
}
