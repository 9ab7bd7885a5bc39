/** Choices that are the same for the same seed. Made input files depend on their sequence. */
export interface Picks {
  /** A whole number in [0, end). */
  below(end: number): number
  of<T>(values: readonly T[]): T
  /** So many hexadecimal digits. */
  hex(digits: number): string
}

export function seeded(seed: number): Picks {
  let state = seed | 0
  const below = (end: number) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % end
  }
  return {
    below,
    of: values => values[below(values.length)]!,
    hex: digits => Array.from({ length: digits }, () => below(16).toString(16)).join(''),
  }
}
