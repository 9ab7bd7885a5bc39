import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { HOST } from '../support/address.js'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'

const KEYS = 100_000
const TIMES = 4

t.test('four clients of the page leave most of the time to the pipeline', async t => {
  const folder = testFolder(t, { 'app.log': '' })
  const daemon = await startDaemon(
    t,
    folder,
    `status_page: { listen: '${HOST}:0' }
sources: { app: { type: file, include: [./app.log], decode: json } }
processors: { limit: { type: throttle, inputs: [app], limit: 10, window: 1s, key_field: .app, max_keys: ${KEYS} } }
destinations: { out: { type: blackhole, inputs: [limit] } }
`,
  )
  const url = await daemon.until(() => /"url":"([^"]+)","msg":"the page is served"/.exec(daemon.stderr)?.[1])
  const lines = Array.from({ length: KEYS }, (_, n) => `{"app":"key-${n}","text":"some words of a line"}\n`).join('')
  let written = 0
  const took = async (path?: string) => {
    const gone = new AbortController()
    let answers = 0
    const client = async (_: unknown, id: number) => {
      while (!gone.signal.aborted) {
        // No two clients ask the same.
        const answer = await fetch(`${url}${path}&client=${id}`, { signal: gone.signal })
        t.equal(answer.status, 200)
        await answer.arrayBuffer()
        answers++
      }
    }
    const clients = path === undefined ? [] : Array.from({ length: 4 }, client)
    const began = performance.now()
    for (let n = 0; n < TIMES; n++) appendFileSync(join(folder, 'app.log'), lines)
    written += TIMES * KEYS
    await daemon.scrapedUntil(scrape => scrape.events('limit').received === written)
    const ms = performance.now() - began
    gone.abort()
    await Promise.all(clients.map(one => one.catch(() => {})))
    return { ms, answers }
  }
  await took()
  for (const path of ['api/v1/throttles/limit?limit=1000', 'api/v1/status?']) {
    let [alone, beside, answers] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, 0]
    for (let pair = 0; pair < 3; pair++) {
      alone = Math.min(alone, (await took()).ms)
      const one = await took(path)
      beside = Math.min(beside, one.ms)
      answers += one.answers
    }
    t.ok(
      beside < 3 * alone,
      `${path}: ${Math.round(beside)} ms beside ${answers} answers, ${Math.round(alone)} ms alone`,
    )
  }
  await daemon.stop(t)
})
