import type { AnyDefinition } from '../../../../core/component.js'
import { takeLiterals, withLiterals } from '../../../../engine/config/published/secret-places.js'
import type { SealedLiteral } from '../records.js'
import type { Sealer } from './sealer.js'

/** A record with a configuration that may contain literal keys from earlier versions. */
interface Holder {
  readonly config: Readonly<Record<string, unknown>>
  readonly literals?: readonly SealedLiteral[]
}

/** Literal keys in configurations from earlier versions. In the store they are encrypted like secrets of accounts. */
export class Literals {
  readonly #sealer: Sealer
  readonly #components: readonly AnyDefinition[]

  constructor(sealer: Sealer, components: readonly AnyDefinition[]) {
    this.#sealer = sealer
    this.#components = components
  }

  /** Encrypts all literal keys in the record; returns the same object if there are none. `place` is its store key. */
  seal<R extends Holder>(record: R, place: string): R {
    const { config, literals: found } = takeLiterals(record.config, this.#components)
    if (found.length === 0) return record
    const sealed = found.map(({ path, value }) => ({ path, sealed: this.#sealer.seal(value, placeOf(place, path)) }))
    return { ...record, config, literals: [...(record.literals ?? []), ...sealed] }
  }

  /** The configuration with its literal keys. A key that cannot be decrypted stays hidden; nothing can run with it. */
  open({ config, literals = [] }: Holder, place: string): Holder['config'] {
    const found = literals.flatMap(({ path, sealed }) => {
      const value = this.#sealer.open(sealed, placeOf(place, path))
      return value === undefined ? [] : [{ path, value }]
    })
    return withLiterals(config, found)
  }
}

const placeOf = (place: string, path: readonly string[]) => JSON.stringify([place, ...path])
