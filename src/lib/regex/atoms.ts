/** What stands in front of the first character and behind the last. */
export const NOTHING = 0

/** Beyond the Basic Multilingual Plane, characters that are remembered. */
const MOST_RARE = 4096

/** A part that is one character, and stands for itself. */
const PLAIN = /^(?:[^.[\\]|\\[^dDsSwWpPbB])/u
/** Of parts that are written like this every member is among POSSIBLE, in any case. */
const NARROW = /^(?:[\x20-\x2d\x2f-\x5a\x5e-\x7f]|\\[dsw]|\\[^\w]|\[(?!\^)(?:[\x20-\x5a\x5e-\x7f]|\\[dsw]|\\[^\w])*\])$/
const SPACES = [0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0xfeff]
const POSSIBLE = [
  ...Array.from({ length: 128 }, (_, code) => code),
  ...Array.from({ length: 11 }, (_, i) => 0x2000 + i),
  ...SPACES,
  // The long s and the Kelvin sign are s and k where case is ignored.
  ...[0x17f, 0x212a],
].map(code => String.fromCharCode(code))

interface Atom {
  readonly source: string
  readonly flags: string
  readonly test: RegExp
}

/**
 * The single-character parts of a pattern, and the symbols that they distinguish: two characters that each part treats in
 * the same way are the same symbol. V8 decides whether a character belongs to a part, so case, classes and properties
 * are exactly its own.
 */
export class Atoms {
  /** Symbols of the first 256 characters, NOTHING where `symbolOf` has not been asked yet. */
  readonly latin = new Uint16Array(256)
  readonly #atoms: Atom[] = []
  readonly #indexes = new Map<string, number>()
  /** Symbols of code units by their high byte. */
  readonly #pages: (Uint16Array | undefined)[] = [this.latin]
  readonly #rare = new Map<number, number>()
  readonly #byMembers = new Map<string, number>()
  /** By symbol, and by atom in each. */
  readonly #members: Uint8Array[] = []

  /** The index of the part that is written as `source`. */
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

  /** Whether the part is one character that stands for itself. */
  isPlain(atom: number): boolean {
    return PLAIN.test(this.#atoms[atom]!.source)
  }

  /** The character that the part stands for, if it is one in any case. */
  charOf(atom: number): string | undefined {
    const { source, flags } = this.#atoms[atom]!
    if (flags.includes('i') || !PLAIN.test(source)) return undefined
    if (!source.startsWith('\\')) return source
    return /^\\\W$/.test(source) ? source[1] : undefined
  }

  /** Whether surely no character belongs to both. */
  areDisjoint(a: number, b: number): boolean {
    return this.#isOutside(a, b) || this.#isOutside(b, a)
  }

  #isOutside(narrow: number, other: number): boolean {
    const { source, test } = this.#atoms[narrow]!
    return NARROW.test(source) && POSSIBLE.every(char => !test.test(char) || !this.#atoms[other]!.test.test(char))
  }

  /** Symbols that were seen up to now, NOTHING included. */
  get symbols(): number {
    return this.#members.length + 1
  }

  /** By atom, whether the symbol belongs to it. Not for NOTHING, which belongs to none. */
  membersOf(symbol: number): Uint8Array {
    return this.#members[symbol - 1]!
  }

  has(symbol: number, atom: number): boolean {
    return symbol !== NOTHING && this.#members[symbol - 1]![atom] === 1
  }

  symbolOf(code: number): number {
    if (code > 0xffff) {
      const known = this.#rare.get(code)
      if (known !== undefined) return known
      if (this.#rare.size === MOST_RARE) this.#rare.clear()
      const symbol = this.#find(code)
      this.#rare.set(code, symbol)
      return symbol
    }
    let page = this.#pages[code >> 8]
    if (!page) {
      page = new Uint16Array(256)
      this.#pages[code >> 8] = page
    }
    const known = page[code & 0xff]!
    if (known !== NOTHING) return known
    const symbol = this.#find(code)
    page[code & 0xff] = symbol
    return symbol
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
