import { appendFileSync, chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import t from 'tap'
import { parse } from 'yaml'
import { components } from '../../../../src/components/list.js'
import type { AnyDefinition } from '../../../../src/core/component.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { checkSource, OpenedSource, type SourceInput } from '../../../../src/engine/testing/check-source.js'
import { FakeRedis } from '../../../support/fake-redis.js'
import { testFolder } from '../../../support/folder.js'
import { heldBytes } from '../../../support/heap.js'
import { longTest } from '../../../support/long-test.js'
import { Taker } from '../../../support/pushed.js'
import { until } from '../../../support/until.js'

/** What holds for every source of the list but `demo`. Each of them needs an input here that lines can be written to. */

/** The source that makes its own events has no input. */
const sources = components.filter((one): one is AnyDefinition<'source'> => one.kind === 'source' && one.type !== 'demo')

const asText = (lines: readonly string[]) => lines.map(line => `${line}\n`).join('')

const inputs: Readonly<Record<string, (folder: string) => SourceInput | Promise<SourceInput>>> = {
  file(folder) {
    const path = join(folder, 'in.log')
    return {
      options: { include: [path], scan_interval: '50ms' },
      write: lines => appendFileSync(path, asText(lines)),
    }
  },
  stdin() {
    const stdin = new PassThrough({ highWaterMark: 2 ** 30 })
    return { options: {}, stdin, write: lines => stdin.write(asText(lines)) }
  },
  journald(folder) {
    const path = join(folder, 'entries')
    const { PATH } = process.env
    const program = join(folder, 'journalctl')
    // With --cursor=cN it begins with entry N.
    writeFileSync(
      program,
      `#!/bin/sh\nn=1; for a in "$@"; do case $a in --cursor=c*) n=\${a#--cursor=c} ;; esac; done\nexec tail -n +$n -f '${path}'\n`,
    )
    chmodSync(program, 0o755)
    appendFileSync(path, '')
    process.env.PATH = `${folder}:${PATH}`
    let n = 0
    return {
      options: {},
      write: lines =>
        appendFileSync(path, asText(lines.map(line => JSON.stringify({ __CURSOR: `c${++n}`, MESSAGE: line })))),
      close: () => void (process.env.PATH = PATH),
    }
  },
  async redis() {
    const server = await FakeRedis.start()
    return {
      options: { url: server.url, stream: 'logs', timeout: '5s' },
      write: lines => server.add(lines.map(line => ['message', line])),
      close: () => server.close(),
    }
  },
  tcp() {
    let socket: Socket | undefined
    return {
      options: { listen: '127.0.0.1:0' },
      write(lines, port) {
        socket ??= connect(port, '127.0.0.1').on('error', () => {})
        socket.write(asText(lines))
      },
      close: () => socket?.destroy(),
    }
  },
  http() {
    return {
      options: { listen: '127.0.0.1:0' },
      answers: true,
      write: (lines, port) =>
        fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body: asText(lines), headers: { connection: 'close' } })
          .then(async answer => {
            await answer.arrayBuffer()
            return answer.status
          })
          .catch(() => 0),
    }
  },
  otlp() {
    return {
      options: { http: { listen: '127.0.0.1:0' } },
      answers: true,
      write(lines, port) {
        const logRecords = lines.map(stringValue => ({ body: { stringValue } }))
        const body = JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] })
        const headers = { 'content-type': 'application/json', connection: 'close' }
        return fetch(`http://127.0.0.1:${port}/v1/logs`, { method: 'POST', body, headers })
          .then(async answer => {
            await answer.arrayBuffer()
            return answer.status
          })
          .catch(() => 0)
      },
    }
  },
}

/** Counts events, and keeps none of them. */
class Counting extends Taker {
  count = 0
  override async send(batch: EventBatch): Promise<void> {
    this.count += batch.length
    batch.ack.settle('delivered')
  }
}

const numbered = (from: number, to: number, rest = '') =>
  Array.from({ length: to - from }, (_, i) => `line ${from + i}${rest}`)

for (const definition of sources) {
  const { type } = definition
  t.test(`${type}: there is an input for it here, and its examples are options that it takes`, async t => {
    t.equal(typeof inputs[type], 'function', 'inputs of this file has it')
    for (const { title, yaml } of definition.examples) {
      // Keys and certificates of an example are not there.
      const { auth, tls, ...options } = parse(yaml) ?? {}
      t.ok(definition.options.safeParse(options).success, title)
    }
  })

  t.test(`${type}: it keeps to the contract, as plugins are held to it`, async t => {
    const folder = testFolder(t)
    let inputsMade = 0
    const open = () => {
      const own = join(folder, String(inputsMade++))
      mkdirSync(own)
      return inputs[type]!(own)
    }
    t.same(await checkSource(definition, open), [])
  })

  longTest(`${type}: its memory stays flat`, async t => {
    const out = new Counting('delivered')
    const opened = new OpenedSource(definition, await inputs[type]!(testFolder(t)))
    t.teardown(() => opened.close())
    const { write, end } = await opened.begin(out)
    const portion = numbered(0, 5000)
    const send = async (portions: number) => {
      for (const all = out.count + portions * portion.length; out.count < all; ) {
        const next = out.count + portion.length
        await Promise.all([write(portion), until(() => out.count >= next)])
      }
      return heldBytes()
    }
    const before = await send(10)
    const grown = (await send(60)) - before
    t.ok(grown < 4 * 1024 * 1024, `${Math.round(grown / 1024)} KiB more after 300,000 events`)
    await end()
  })
}
