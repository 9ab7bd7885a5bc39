import { setImmediate } from 'node:timers'

/** The event loop of the process that simulates, which stays the real one. */

/** Turns that are asked for at a time: each ends with all promises and ticks that follow from it. */
const AT_ONCE = 32

/** Calls `step` once in each turn of the event loop until it returns false. */
export function runsRealTurns(step: () => boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    let left = 0
    let isOver = false
    const turn = () => {
      left--
      if (!isOver) {
        try {
          isOver = !step()
        } catch (error) {
          isOver = true
          reject(error)
        }
      }
      if (left > 0) return
      if (isOver) resolve()
      else begin()
    }
    const begin = () => {
      left = AT_ONCE
      for (let i = 0; i < AT_ONCE; i++) setImmediate(turn)
    }
    begin()
  })
}
