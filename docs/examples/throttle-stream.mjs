// Limits lines of JSON to two a second for each app; errors always pass. Reads standard input, writes standard output.
//
//   node docs/examples/throttle-stream.mjs < app.ndjson
import { pipeline } from 'node:stream/promises'
import { createThrottle } from '@sluice-logs/sluice'
import split2 from 'split2'

const throttle = createThrottle({
  limit: 2,
  window: '1 Seconds',
  key_field: '.app',
  exclude: "if (.level equal 'error')",
})

await pipeline(
  process.stdin,
  split2(JSON.parse),
  throttle,
  async function* (events) {
    for await (const event of events) yield `${JSON.stringify(event)}\n`
  },
  process.stdout,
)
const { received, passed, excluded, discarded } = throttle.stats
process.stderr.write(`${received} events: ${passed} passed, ${excluded} excluded, ${discarded} discarded\n`)
