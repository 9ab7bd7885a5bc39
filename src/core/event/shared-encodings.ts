/**
 * Bytes to write, in order. Use the parts before the batches settle, because they may be slices of the batches' chunks.
 */
export interface Encoded {
  readonly parts: Buffer[]
  bytes: number
  /** Optional: call this when the parts are no longer read, so that their memory can be reused. */
  release?(): void
}

/** The part of a batch that a copy has. */
interface Part {
  readonly shared: SharedEncodings | undefined
  /** The index of its first event in the batch of which `shared` was made. */
  readonly sharedFrom: number
  readonly length: number
}

/** The settings of an encoding. */
interface Settings<S> {
  isSame(other: S): boolean
}

interface Kept {
  readonly request: readonly Part[]
  readonly settings: unknown
  readonly encoded: Encoded
  holders: number
}

const isPart = (a: Part, b: Part | undefined) =>
  a.shared !== undefined && a.shared === b?.shared && a.sharedFrom === b.sharedFrom && a.length === b.length

/**
 * The encodings of the unchanged copies of a batch, which several destinations hold. An encoding is kept only while one
 * of them uses it, so a slow destination does not make memory last longer.
 */
export class SharedEncodings {
  /** Weak, because a destination may drop an encoding without releasing it. */
  #kept: WeakRef<Kept>[] = []

  /** Encodes a request, unless a destination with the same settings uses its encoding at this time. */
  static of<S extends Settings<S>>(request: readonly Part[], settings: S, encode: () => Encoded): Encoded {
    const shared = request[0]?.shared
    if (!shared) return encode()
    const found = shared.#find(request, settings)
    if (found) return shared.#hold(found)
    const parts = request.map(({ shared, sharedFrom, length }) => ({ shared, sharedFrom, length }))
    const kept = { request: parts, settings, encoded: encode(), holders: 0 }
    shared.#kept.push(new WeakRef<Kept>(kept))
    return shared.#hold(kept)
  }

  #find<S extends Settings<S>>(request: readonly Part[], settings: S): Kept | undefined {
    for (const ref of this.#kept) {
      const kept = ref.deref()
      if (kept?.request.length !== request.length || !settings.isSame(kept.settings as S)) continue
      if (request.every((part, i) => isPart(part, kept.request[i]))) return kept
    }
    return undefined
  }

  #hold(kept: Kept): Encoded {
    const { parts, bytes } = kept.encoded
    kept.holders++
    let isHeld = true
    const release = () => {
      if (!isHeld) return
      isHeld = false
      if (--kept.holders > 0) return
      this.#kept = this.#kept.filter(ref => ref.deref() !== kept)
      kept.encoded.release?.()
    }
    return { parts: [...parts], bytes, release }
  }
}
