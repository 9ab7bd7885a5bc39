import type { Atoms } from './atoms.js'

/** The structure of a regular expression. V8 matches single characters, so an atom is only an index into Atoms. */
export type Node = Part & {
  /** Numbers of the capturing groups that contain exactly this node, beginning with the outermost. */
  readonly groups?: readonly number[]
}

type Part =
  | { readonly kind: 'atom'; readonly atom: number }
  | { readonly kind: 'sequence' | 'choice'; readonly nodes: readonly Node[] }
  | Repeat
  | Assertion
  | Lookaround

export interface Repeat {
  readonly kind: 'repeat'
  readonly node: Node
  readonly min: number
  readonly max: number
  /** Whether the repeat matches as few iterations as possible, and not as many as possible. */
  readonly lazy: boolean
}

/** `^`, `$` or `\b`. `atom`: line terminators or word characters; undefined: only the text's ends count. */
export interface Assertion {
  readonly kind: 'start' | 'end' | 'boundary'
  readonly atom: number | undefined
  readonly negated: boolean
}

export interface Lookaround {
  readonly kind: 'look'
  readonly behind: boolean
  readonly negated: boolean
  readonly node: Node
  /** Look-arounds with equal texts are equal. */
  readonly text: string
}

export interface Syntax {
  readonly node: Node
  /** The name of each capturing group, by number; undefined: no name. Number 0 is the whole match. */
  readonly groupNames: readonly (string | undefined)[]
}

/** V8 accepts the pattern, but it cannot be matched in bounded time. */
export class UnboundedPattern extends Error {}

export class TooLargePattern extends UnboundedPattern {}

const ESCAPE =
  /\\(?:u\{[^}]*\}|u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|u[\da-fA-F]{4}|x[\da-fA-F]{2}|c[a-zA-Z]|[pP]\{[^}]*\}|[\s\S])/uy
/** ESCAPE without the flag `u`. */
const LEGACY_ESCAPE = /\\(?:u[\da-fA-F]{4}|x[\da-fA-F]{2}|c[a-zA-Z]|[\s\S])/y
const CLASS = /\[(?:\\[\s\S]|[^\]\\])*\]/uy
const BACK_REFERENCE = /\\(?:[1-9]\d*|k<[^>]*>)/y
const QUANTIFIER = /(?:([*+?])|\{(\d+)(,(\d*))?\})(\??)/y
const GROUP = /\((?:\?(?:(<?[=!])|<([^>]*)>|([ims]*)(?:-([ims]*))?:))?/y

const DEEPEST = 200
const MOST_GROUPS = 1000

const EMPTY: Node = { kind: 'sequence', nodes: [] }

/** Parses a pattern that V8 accepts. Throws UnboundedPattern. */
export function readSyntax(source: string, flags: string, atoms: Atoms): Syntax {
  return new Reader(source, flags, atoms).whole()
}

class Reader {
  readonly #source: string
  readonly #atoms: Atoms
  readonly #unicode: boolean
  #flags: string
  readonly #groupNames: (string | undefined)[] = [undefined]
  #at = 0
  #depth = 0

  constructor(source: string, flags: string, atoms: Atoms) {
    this.#source = source
    this.#flags = flags
    this.#atoms = atoms
    this.#unicode = flags.includes('u')
  }

  whole(): Syntax {
    return { node: this.#choice(), groupNames: this.#groupNames }
  }

  #choice(): Node {
    const nodes = [this.#sequence()]
    while (this.#source[this.#at] === '|') {
      this.#at++
      nodes.push(this.#sequence())
    }
    return nodes.length === 1 ? nodes[0]! : { kind: 'choice', nodes }
  }

  #sequence(): Node {
    const nodes: Node[] = []
    while (this.#at < this.#source.length && !'|)'.includes(this.#source[this.#at]!)) nodes.push(this.#repeated())
    return nodes.length === 1 ? nodes[0]! : { kind: 'sequence', nodes }
  }

  #repeated(): Node {
    const node = this.#term()
    const found = this.#take(QUANTIFIER)
    if (!found) return node
    const [, sign, least, comma, most, lazy] = found
    const min = sign ? Number(sign === '+') : Number(least)
    const max = sign ? (sign === '?' ? 1 : Infinity) : comma ? (most ? Number(most) : Infinity) : min
    return max === 0 ? EMPTY : { kind: 'repeat', node, min, max, lazy: lazy === '?' }
  }

  #term(): Node {
    const sign = this.#source[this.#at]!
    if (sign === '(') return this.#group()
    if (sign === '[') return this.#atom(this.#take(CLASS)![0])
    if (sign === '\\') return this.#escape()
    if (sign === '^' || sign === '$') {
      this.#at++
      const atom = this.#flags.includes('m') ? this.#atoms.index('[\\n\\r\\u2028\\u2029]', '') : undefined
      return { kind: sign === '^' ? 'start' : 'end', atom, negated: false }
    }
    const char = this.#unicode ? String.fromCodePoint(this.#source.codePointAt(this.#at)!) : sign
    this.#at += char.length
    return this.#atom('{}]'.includes(char) ? `\\${char}` : char)
  }

  #escape(): Node {
    const start = this.#at
    const [reference] = this.#take(BACK_REFERENCE) ?? []
    if (reference) {
      throw new UnboundedPattern(
        `has the back-reference ${reference} at character ${start + 1}, which cannot be matched in bounded time; write out the group that it refers to`,
      )
    }
    const [text] = this.#take(this.#unicode ? ESCAPE : LEGACY_ESCAPE)!
    if (text !== '\\b' && text !== '\\B') return this.#atom(text)
    return { kind: 'boundary', atom: this.#atoms.index('\\w', this.#flags), negated: text === '\\B' }
  }

  #group(): Node {
    const start = this.#at
    const [opening, look, name, added, removed] = this.#take(GROUP)!
    const before = this.#flags
    if (added !== undefined) {
      this.#flags = [...new Set(before + added)].filter(flag => !removed?.includes(flag)).join('')
    }
    const number = opening === '(' || name !== undefined ? this.#groupNames.push(name) - 1 : undefined
    if (number === MOST_GROUPS) {
      throw new UnboundedPattern(
        `has more than ${MOST_GROUPS - 1} capturing groups; write (?:…) for groups that are not used`,
      )
    }
    if (++this.#depth > DEEPEST) throw new UnboundedPattern(`is nested deeper than ${DEEPEST} groups`)
    const node = this.#choice()
    this.#depth--
    this.#at++
    this.#flags = before
    if (number !== undefined) return { ...node, groups: [number, ...(node.groups ?? [])] }
    if (look === undefined) return node
    const text = `${before} ${this.#source.slice(start, this.#at)}`
    return { kind: 'look', behind: look.startsWith('<'), negated: look.endsWith('!'), node, text }
  }

  #atom(source: string): Node {
    return { kind: 'atom', atom: this.#atoms.index(source, this.#flags) }
  }

  #take(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#source)
    if (found) this.#at += found[0].length
    return found ?? undefined
  }
}
