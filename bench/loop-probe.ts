import { readFileSync } from 'node:fs'

/**
 * Loaded into the measured process by `--import`: asked by the message `watch`, it looks at the clock each millisecond,
 * and tells at `tell` how long the loop was held up at most, in milliseconds: by the clock, and by the time that its
 * thread had a core, where a busy machine does not count.
 */
let longest = { clock: 0, core: 0 }
let watching = false
let before = { clock: 0, core: 0 }

function now(): { clock: number; core: number } {
  return { clock: performance.now(), core: Number(readFileSync('/proc/self/schedstat', 'latin1').split(' ')[0]) / 1e6 }
}

function turn(): void {
  const here = now()
  longest = {
    clock: Math.max(longest.clock, here.clock - before.clock),
    core: Math.max(longest.core, here.core - before.core),
  }
  before = here
  if (watching) setTimeout(turn, 1)
}

process.on('message', message => {
  if (message === 'watch') {
    longest = { clock: 0, core: 0 }
    watching = true
    before = now()
    setTimeout(turn, 1)
  } else if (message === 'tell') {
    watching = false
    process.send!(longest)
  }
})
// The parent may keep its end open for as long as it likes.
process.channel?.unref()
