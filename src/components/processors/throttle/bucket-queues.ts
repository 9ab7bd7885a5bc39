import type { EventKey } from '../../throttle/buckets/event-key.js'
import { randomSeed } from '../../throttle/buckets/key-table.js'

/** Number of queues at most. Buckets with the same one wait when one of them has to, which loses nothing. */
const MOST_QUEUES = 65_536
/** How often queues of buckets that have caught up are forgotten. */
const FORGET_MS = 1000

/** What waits for a bucket, or has taken room there of events that came later. */
export interface Queue {
  /** Events that wait. */
  events: number
  /** Those of them that are backlog. */
  backlog: number
  /** How many of the others would have passed when they came, if there had been no backlog. */
  displaced: number
  /** Until when events that were late, as backlog or after a wait, take the room of others. */
  until: number
}

/** The number of the queue of a bucket. */
export const queueOf = ({ hash }: EventKey): number => (hash ^ (hash >>> 16)) & (MOST_QUEUES - 1)

/** The buckets that are behind, by the numbers of their queues. */
export class BucketQueues {
  /** Of the hashes of keys, so that nobody can choose keys which share a queue. */
  readonly seed = randomSeed()
  /** Number of all events that wait as backlog, or because of it. */
  behind = 0
  readonly #queues = new Map<number, Queue>()
  #forgetAt = Number.NEGATIVE_INFINITY

  get isEmpty(): boolean {
    return this.#queues.size === 0
  }

  /** A queue; undefined: the bucket has caught up. */
  get(id: number, now: number): Queue | undefined {
    const queue = this.#queues.get(id)
    return queue && isOver(queue, now) ? undefined : queue
  }

  /** A queue, which is a new one if there is none. */
  open(id: number, now: number): Queue {
    let queue = this.get(id, now)
    if (!queue) this.#queues.set(id, (queue = { events: 0, backlog: 0, displaced: 0, until: Number.NEGATIVE_INFINITY }))
    return queue
  }

  join(queue: Queue, isBacklog: boolean, isDisplaced: boolean): void {
    if (isBacklog || isDisplaced) this.behind++
    queue.events++
    if (isBacklog) queue.backlog++
    if (isDisplaced) queue.displaced++
  }

  /** Call for an event that has waited. Those that are not displaced are taken to leave first. */
  leave(queue: Queue, isBacklog: boolean): void {
    // After a reload, nobody knows of what waited before.
    if (queue.events === 0) return
    const before = queue.backlog + queue.displaced
    queue.events--
    if (isBacklog) queue.backlog = Math.max(0, queue.backlog - 1)
    queue.displaced = Math.min(queue.displaced, queue.events - queue.backlog)
    this.behind += queue.backlog + queue.displaced - before
  }

  /** Forgets the queues of buckets that have caught up, now and then. */
  sweep(now: number): void {
    if (now < this.#forgetAt) return
    this.#forgetAt = now + FORGET_MS
    for (const [id, queue] of this.#queues) if (isOver(queue, now)) this.#queues.delete(id)
  }
}

const isOver = ({ events, until }: Queue, now: number) => events === 0 && now >= until

/** Whether events of the bucket wait because others were late, or find room taken by such ones. */
export const isBehind = ({ backlog, displaced, until }: Queue, now: number) => backlog + displaced > 0 || now < until
