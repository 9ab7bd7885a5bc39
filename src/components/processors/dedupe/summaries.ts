import type { ProcessorContext } from '../../../core/component.js'
import type { Emitted } from '../../../core/processor.js'
import { OTHER } from '../../throttle/bucket-name.js'
import type { RecentKeys } from './recent-keys.js'

/** Makes events of the numbers of duplicates, in bounded memory. */
export class Summaries {
  readonly #context: Pick<ProcessorContext, 'id' | 'clock'>
  readonly #window: number
  readonly #most: number
  #due: Emitted[] = []
  /** Duplicates of the keys for which there was no room, and when the first of them passed. */
  #others = 0
  #othersSince = 0

  constructor(context: Pick<ProcessorContext, 'id' | 'clock'>, window: number, most: number) {
    this.#context = context
    this.#window = window
    this.#most = most
  }

  /** Adds the duplicates of a key that were counted, if there are any, and counts from 0 again. */
  add(keys: RecentKeys, id: number, now: number): void {
    const duplicates = keys.count(id)
    if (duplicates === 0) return
    const first = this.#context.clock.wall() - (now - keys.since(id))
    if (this.#due.length < this.#most) this.#due.push(this.#summary(keys.name(id) ?? OTHER, duplicates, first))
    else {
      this.#othersSince = this.#others === 0 ? first : Math.min(first, this.#othersSince)
      this.#others += duplicates
    }
    keys.clearCount(id)
  }

  /** Returns the events that are due. */
  take(): Emitted[] {
    const due = this.#due
    if (this.#others > 0) due.push(this.#summary(OTHER, this.#others, this.#othersSince))
    this.#due = []
    this.#others = 0
    return due
  }

  #summary(key: string, duplicates: number, first: number): Emitted {
    const { id, clock } = this.#context
    return {
      fields: {
        message: 'duplicates',
        timestamp: timeText(clock.wall()),
        dedupe: { component: id, key, duplicates, first: timeText(first), window_ms: this.#window },
      },
    }
  }
}

const timeText = (ms: number) => new Date(ms).toISOString()
