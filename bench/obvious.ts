import { createReadStream, createWriteStream } from 'node:fs'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import split2 from 'split2'

/** What one would write for the throttle job with Node and split2 alone: the measure of our own numbers. */

interface LogLine {
  readonly app?: string
  readonly host?: string
}

const [from, to, limitText = '100', excludedHost] = process.argv.slice(2) as [string, string, string?, string?]
const limit = Number(limitText)
const windowMs = 1000
const windows = new Map<string, { start: number; count: number }>()

const throttle = new Transform({
  objectMode: true,
  transform(event: LogLine, _encoding, done) {
    if (event.host === excludedHost) return done(null, event)
    const now = Date.now()
    const key = event.app ?? ''
    const window = windows.get(key)
    if (!window || now - window.start >= windowMs) {
      windows.set(key, { start: now, count: 1 })
      return done(null, event)
    }
    if (window.count >= limit) return done()
    window.count++
    done(null, event)
  },
})

const stringify = new Transform({
  writableObjectMode: true,
  transform(event: LogLine, _encoding, done) {
    done(null, `${JSON.stringify(event)}\n`)
  },
})

await pipeline(createReadStream(from), split2(JSON.parse), throttle, stringify, createWriteStream(to))
