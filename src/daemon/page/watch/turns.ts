import { Gone } from '../../../net/http/server/refusal.js'

/** Answers questions one at a time. */
export class Turns {
  #last: Promise<unknown> = Promise.resolve()

  /** `isGone`: whether the client has disconnected. If so when its turn comes, rejects with Gone. */
  next<T>(answer: () => Promise<T>, isGone: () => boolean): Promise<T> {
    const turn = this.#last.then(() => {
      if (isGone()) throw new Gone()
      return answer()
    })
    this.#last = turn.catch(() => {})
    return turn
  }
}

/** For who waits until the answer is there. */
export const STAYS = () => false
