import { seeded } from './seeded.js'

export { agreesWithFields, readFields } from '../../src/engine/testing/codec-agreement.js'

/** Lines made of up to 8 of `parts`, the same ones for the same seed. */
export function fuzz(seed: number, count: number, parts: readonly string[]): string[] {
  const random = seeded(seed)
  const below = (most: number) => Math.floor(random() * most)
  return Array.from({ length: count }, () =>
    Array.from({ length: below(9) }, () => parts[below(parts.length)]).join(''),
  )
}
