import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * What the HTTP job delivers to, as a process of its own: counts the lines and bytes of every request. Tells its
 * parent its port; answers any message with the counts so far. With --away it refuses every request until it is told
 * `back`.
 */

const LF = 0x0a
let lines = 0
let bytes = 0
let away = process.argv.includes('--away')

const server = createServer((request, response) => {
  if (away) {
    request.resume().on('end', () => response.writeHead(503).end())
    return
  }
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    for (let at = chunk.indexOf(LF); at >= 0; at = chunk.indexOf(LF, at + 1)) lines++
  })
  request.on('end', () => response.writeHead(202).end())
})
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
process.on('message', message => {
  if (message === 'back') away = false
  process.send?.({ lines, bytes })
})
process.on('disconnect', () => process.exit())
