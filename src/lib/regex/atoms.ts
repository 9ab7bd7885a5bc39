/** The symbol that stands before the first character of a text and after the last character. */
export const TEXT_EDGE = 0

/** An atom that is a single literal character. */
const PLAIN = /^(?:[^.[\\]|\\[^dDsSwWpPbB])/u
/** If an atom has this form, POSSIBLE contains all characters that the atom matches, even if case is ignored. */
const NARROW = /^(?:[\x20-\x2d\x2f-\x5a\x5e-\x7f]|\\[dsw]|\\[^\w]|\[(?!\^)(?:[\x20-\x5a\x5e-\x7f]|\\[dsw]|\\[^\w])*\])$/
const SPACES = [0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0xfeff]
const POSSIBLE = [
  ...Array.from({ length: 128 }, (_, code) => code),
  ...Array.from({ length: 11 }, (_, i) => 0x2000 + i),
  ...SPACES,
  // When case is ignored, the long s and the Kelvin sign match s and k.
  ...[0x17f, 0x212a],
].map(code => String.fromCharCode(code))

interface Atom {
  readonly source: string
  readonly flags: string
  readonly test: RegExp
}

/**
 * The single-character parts (atoms) of a pattern, and the symbols that they distinguish. Characters that every atom
 * treats alike share a symbol. V8 decides whether a character belongs to an atom, so case, classes and properties are
 * exactly those of V8.
 */
export class Atoms {
  /** Symbols of the first 256 characters; NOTHING if not determined so far. */
  readonly latin = new Uint16Array(256)
  readonly #atoms: Atom[] = []
  readonly #indexes = new Map<string, number>()
  /** Symbols by code point, 256 per page: at most 2 MB. */
  readonly #pages: (Uint16Array | undefined)[] = [this.latin]
  readonly #byMembers = new Map<string, number>()
  /** For each symbol: whether it belongs to each atom. */
  readonly #members: Uint8Array[] = []

  index(source: string, flags: string): number {
    const relevant = flags.replace(/[^ius]/g, '')
    const name = `${relevant}/${source}`
    let index = this.#indexes.get(name)
    if (index === undefined) {
      const test = new RegExp(`^(?:${source})$`, relevant)
      index = this.#atoms.push({ source, flags: relevant, test }) - 1
      this.#indexes.set(name, index)
    }
    return index
  }

  isPlain(atom: number): boolean {
    return PLAIN.test(this.#atoms[atom]!.source)
  }

  /**
   * Returns the only character that the atom matches. Undefined if the atom may match several, as it may with the flag
   * `i`.
   */
  charOf(atom: number): string | undefined {
    const { source, flags } = this.#atoms[atom]!
    if (flags.includes('i') || !PLAIN.test(source)) return undefined
    if (!source.startsWith('\\')) return source
    return /^\\\W$/.test(source) ? source[1] : undefined
  }

  /** Whether it is certain that no character belongs to both atoms. */
  areDisjoint(a: number, b: number): boolean {
    return this.#isOutside(a, b) || this.#isOutside(b, a)
  }

  #isOutside(narrow: number, other: number): boolean {
    const { source, test } = this.#atoms[narrow]!
    return NARROW.test(source) && POSSIBLE.every(char => !test.test(char) || !this.#atoms[other]!.test.test(char))
  }

  get symbols(): number {
    return this.#members.length + 1
  }

  /** Returns 1 for each atom to which the symbol belongs. Do not pass NOTHING, which belongs to no atom. */
  membersOf(symbol: number): Uint8Array {
    return this.#members[symbol - 1]!
  }

  has(symbol: number, atom: number): boolean {
    return symbol !== TEXT_EDGE && this.#members[symbol - 1]![atom] === 1
  }

  symbolOf(code: number): number {
    let page = this.#pages[code >> 8]
    if (!page) {
      page = new Uint16Array(256)
      this.#pages[code >> 8] = page
    }
    const known = page[code & 0xff]!
    if (known !== TEXT_EDGE) return known
    const symbol = this.#find(code)
    page[code & 0xff] = symbol
    return symbol
  }

  /** `before` returns the symbol of the character before position `p`. `after` returns the symbol of the next one. */
  before(text: string, p: number, unicode: boolean): number {
    if (p === 0) return TEXT_EDGE
    const code = unicode && p > 1 ? text.codePointAt(p - 2)! : 0
    return this.symbolOf(code > 0xffff ? code : text.charCodeAt(p - 1))
  }

  after(text: string, p: number, unicode: boolean): number {
    if (p === text.length) return TEXT_EDGE
    return this.symbolOf(unicode ? text.codePointAt(p)! : text.charCodeAt(p))
  }

  #find(code: number): number {
    const char = String.fromCodePoint(code)
    const members = Uint8Array.from(this.#atoms, ({ test }) => Number(test.test(char)))
    const name = String.fromCharCode(...members)
    let symbol = this.#byMembers.get(name)
    if (symbol === undefined) {
      symbol = this.#members.push(members)
      this.#byMembers.set(name, symbol)
    }
    return symbol
  }
}
