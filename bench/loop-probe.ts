/**
 * Loaded into the measured process by `--import`: asked by the message `watch`, it turns the event loop without a rest
 * and tells at `tell` how long the loop was held up at most, in milliseconds.
 */
let longest = 0
let watching = false
let before = 0

function turn(): void {
  const now = performance.now()
  longest = Math.max(longest, now - before)
  before = now
  if (watching) setImmediate(turn)
}

process.on('message', message => {
  if (message === 'watch') {
    longest = 0
    watching = true
    before = performance.now()
    setImmediate(turn)
  } else if (message === 'tell') {
    watching = false
    process.send!(longest)
  }
})
// The parent may keep its end open for as long as it likes.
process.channel?.unref()
