import { appendFileSync, chmodSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { components } from '../../../src/components.js'
import type { AnyDefinition, SourceContext } from '../../../src/core/component.js'
import type { EventBatch } from '../../../src/core/event/batch.js'
import { testFolder } from '../../support/folder.js'
import { heldBytes } from '../../support/heap.js'
import { contextOf, Taker, until } from '../../support/pushed.js'
import { MemoryCheckpoints } from '../../support/tailing.js'

/** What holds for every source of the list. Each of them needs an input here that lines can be written to. */

const sources = components.filter((one): one is AnyDefinition<'source'> => one.kind === 'source')

interface Input {
  readonly options: object
  /** Whoever writes hears what became of it: `write` resolves with the status of the answer. */
  readonly answers?: true
  readonly stdin?: PassThrough
  /** Writes lines, in one portion; `port` is where the source listens. */
  write(lines: readonly string[], port: number): unknown
  close?(): void
}

const asText = (lines: readonly string[]) => lines.map(line => `${line}\n`).join('')

const inputs: Readonly<Record<string, (folder: string) => Input>> = {
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
}

/** Takes batches one turn of the event loop after the other, and knows how many were given to it at once. */
class Slow extends Taker {
  /** Read at once: the bytes of a batch are valid until it is settled. */
  readonly messages: string[] = []
  most = 0
  #sending = 0
  override async send(batch: EventBatch): Promise<void> {
    this.most = Math.max(this.most, ++this.#sending)
    for (let i = 0; i < batch.length; i++) this.messages.push(batch.fields(i).message as string)
    const room = super.send(batch)
    for (let turns = 0; turns < 5; turns++) await new Promise(resolve => setImmediate(resolve))
    await room
    this.#sending--
  }
}

/** Counts events, and keeps none of them. */
class Counting extends Taker {
  count = 0
  override async send(batch: EventBatch): Promise<void> {
    this.count += batch.length
    batch.ack.settle('delivered')
  }
}

async function open(t: Test, definition: AnyDefinition<'source'>) {
  const input = inputs[definition.type]!(testFolder(t))
  t.teardown(() => input.close?.())
  const create = async (checkpoints = new MemoryCheckpoints()) => {
    const { context, counters, logs } = contextOf(definition.type)
    const more: Partial<SourceContext> = { checkpoints, ...(input.stdin && { stdin: input.stdin }) }
    const origin: SourceContext['origin'] = (codec, path) => ({ ...context.origin(codec), ...(path && { path }) })
    const source = await definition.create(definition.options.parse(input.options), {
      ...context,
      ...more,
      origin,
    } as never)
    return { source, counters, logs }
  }
  return {
    input,
    create,
    async begin(out: Taker, checkpoints?: MemoryCheckpoints) {
      const { source, counters, logs } = await create(checkpoints)
      const controller = new AbortController()
      await source.start?.(controller.signal)
      const run = source.run(out, controller.signal)
      let hasFailed = false
      run.catch(() => void (hasFailed = true))
      const end = async () => {
        controller.abort()
        out.settlesAs ??= 'delivered'
        out.unblock()
        out.settle('delivered')
        await run.catch(() => {})
        await source.stop?.(AbortSignal.timeout(100))
        await source.stop?.(AbortSignal.timeout(100))
      }
      t.teardown(end)
      let port = 0
      if ('listen' in input.options) {
        const address = () => logs().find(({ msg }) => msg === 'listening')?.address
        await until(() => hasFailed || address() !== undefined)
        port = Number(/:(\d+)$/.exec(String(address()))?.[1])
      }
      const write = (lines: readonly string[]) => input.write(lines, port)
      return { source, counters, run, abort: () => controller.abort(), end, write }
    },
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

  t.test(`${type}: it may be stopped without a start, and twice`, async t => {
    const { source, logs } = await (await open(t, definition)).create()
    await source.stop?.(AbortSignal.abort())
    await source.stop?.(AbortSignal.abort())
    t.same(
      logs().filter(({ level }) => Number(level) >= 50),
      [],
    )
  })

  t.test(`${type}: every line is sent once, in order, while there is room`, async t => {
    const out = new Slow('delivered')
    const { write, end } = await (await open(t, definition)).begin(out)
    const lines = numbered(0, 6000, ` ${'x'.repeat(100)}`)
    lines[500] = `${'é'.repeat(100_000)} "\\`
    lines[501] = ' '
    let written = 0
    for (const count of [1, 2, 0, 997, 5000]) {
      const portion = lines.slice(written, (written += count))
      if (portion.length > 0) await Promise.all([write(portion), until(() => out.events === written)])
    }
    t.same(out.messages, lines)
    t.equal(out.most, 1, 'a batch is given only when the one before was taken')
    await end()
    t.equal(out.events, lines.length)
  })

  t.test(`${type}: an end in the middle, with no room, loses and repeats nothing`, async t => {
    const out = new Slow()
    out.block()
    const { write, run, abort, end } = await (await open(t, definition)).begin(out)
    const lines = numbered(0, 5000, ` ${'y'.repeat(100)}`)
    const answer = write(lines)
    await until(() => out.batches.length > 0)
    abort()
    out.settlesAs = 'delivered'
    out.unblock()
    out.settle('delivered')
    await run
    await answer
    const sent = out.messages
    t.same(sent, lines.slice(0, sent.length))
    await end()
    t.equal(out.events, sent.length, 'nothing comes after the end')
  })

  t.test(`${type}: what is given back comes again, or whoever sent it hears so`, async t => {
    const out = new Slow()
    const opened = await open(t, definition)
    const checkpoints = new MemoryCheckpoints()
    const { source, counters, write, run, end } = await opened.begin(out, checkpoints)
    const answers: unknown[] = []
    for (let n = 0; n < 3; n++) {
      answers.push(write(numbered(n, n + 1)))
      await until(() => out.batches.length === n + 1)
    }
    const [first, second, third] = out.unsettled.splice(0)
    third!.settle('delivered')
    first!.settle('delivered')
    second!.settle('errored')
    if (opened.input.answers) {
      const statuses = (await Promise.all(answers)) as number[]
      t.ok(statuses[0]! < 300 && statuses[1]! >= 500 && statuses[2]! < 300, `${statuses}`)
    } else if (source.once) {
      await end()
      t.equal(counters.failures.get('undelivered'), 1)
    } else {
      await t.rejects(run, /was not delivered/)
      await checkpoints.flush()
      await end()
      const next = new Slow('delivered')
      const again = await opened.begin(next, checkpoints)
      await until(() => next.events === 2)
      t.same(next.messages, ['line 1', 'line 2'], 'the position stays before what was given back')
      again.write(numbered(3, 4))
      await until(() => next.events === 3)
      await again.end()
      await checkpoints.flush()
      const last = new Slow('delivered')
      const rest = await opened.begin(last, checkpoints)
      rest.write(numbered(4, 5))
      await until(() => last.events > 0)
      t.same(last.messages, ['line 4'], 'what was delivered does not come again')
    }
    t.same(out.messages, ['line 0', 'line 1', 'line 2'])
  })
  t.test(`${type}: its memory stays flat`, async t => {
    const out = new Counting('delivered')
    const { write, end } = await (await open(t, definition)).begin(out)
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
