import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkout } from '../support/checkout.js'
import { commandLines, type DocBlock, docBlocks, fileName } from '../support/doc-blocks.js'
import { startReceiver } from '../support/receiver.js'
import { until } from '../support/until.js'
import { type Case, linesFrom } from './case.js'
import type { Machine } from './machine.js'

const PAGE = 'docs/systemd.md'
const HEADING = '### Move a source'
const LOG = '/var/log/shop/shop.log'
const ORDER = '{"order":1}'

/** What the page says about moving a source, one step after the other. */
function steps(): DocBlock[] {
  const lines = readFileSync(join(checkout, PAGE), 'utf8').split('\n')
  const from = lines.indexOf(HEADING)
  const to = lines.findIndex((line, i) => i > from && line.startsWith('#'))
  return docBlocks(PAGE).filter(({ line }) => line > from && line < to)
}

/** The last line of the log of a unit. */
async function totals(machine: Machine, unit: string): Promise<object> {
  const ended = (await machine.journal(unit)).findLast(({ MESSAGE = '' }) => MESSAGE.includes('"msg":"ended"'))
  return JSON.parse(ended?.MESSAGE ?? '{}')
}

/** Several daemons on one machine. */
export const instances: readonly Case[] = [
  {
    title: 'instances: a source moves to another one as the page says, with its positions and what its buffer has',
    async run(t, machine) {
      const receiver = await startReceiver()
      t.teardown(() => receiver.close())
      await machine.do(`install -d -m 0750 -g adm /var/log/shop; install -m 0640 -g adm /dev/null ${LOG}`)
      const append = (from: number, to: number) =>
        machine.tree.sh(`cat >> ${LOG}`, { input: `${linesFrom(from, to).join('\n')}\n` })
      const arrived = () => receiver.lines().filter(line => line !== ORDER)
      const seen = () => new Set(arrived()).size
      const sent = (line: string) => receiver.requests.some(({ body }) => body.includes(line))
      /** What happens around the commands of the page. */
      const after: Record<string, () => Promise<unknown>> = {
        'systemctl start sluice': async () => {
          await append(1, 500)
          await until('the first 500 lines', () => seen() >= 500, { show: seen })
          receiver.otherwise = 503
          await append(501, 1000)
          await until('a request with the last of the next 500', () => sent('{"n":1000}'))
        },
        [`echo '${ORDER}' >> ${LOG}`]: () => until('a request with the line of the page', () => sent(ORDER)),
        'systemctl stop sluice': async () => {
          t.match(await totals(machine, 'sluice'), { received: 1001, delivered: { out: 500 }, undelivered: 501 })
          await append(1001, 1500)
          receiver.otherwise = 200
        },
      }
      for (const block of steps()) {
        const file = fileName(block)
        // Other programs of this machine may have the ports of the page.
        const text = block.text
          .replace('http://127.0.0.1:8080/lines', receiver.url())
          .replaceAll(/127\.0\.0\.1:\d+/g, '127.0.0.1:0')
        if (file !== undefined) machine.write({ [file]: text })
        else {
          for (const line of commandLines(text)) {
            await machine.do(line)
            await after[line]?.()
            delete after[line]
          }
        }
      }
      t.same(Object.keys(after), [], 'the page has these commands')
      await append(1501, 2000)
      await until('all lines', () => seen() >= 2000, { show: seen })
      t.match(await machine.do('sluice status --socket /var/lib/sluice@shop/sluice.sock'), /^Sluice .* ready/m)
      const first = await machine.do('sluice status')
      t.match(first, /^Sluice .* ready/m, 'and so does the first')
      t.match(
        first.replaceAll(/\s+/g, ' '),
        ' sluice status --socket /var/lib/sluice@shop/sluice.sock ',
        'and names the other',
      )
      await machine.do("systemctl stop sluice 'sluice@*.service'")
      t.match(await totals(machine, 'sluice@shop'), { received: 1000, delivered: { out: 1501 }, undelivered: 0 })
      const numbers = arrived().map(line => JSON.parse(line).n as number)
      t.same(
        numbers.sort((a, b) => a - b),
        Array.from({ length: 2000 }, (_, i) => i + 1),
        'each line once',
      )
      t.equal(receiver.lines().length, 2001, 'that of the page, too')
      const said = async (unit: string) => (await machine.journal(unit)).map(({ MESSAGE = '' }) => MESSAGE).join('\n')
      t.match(await said('sluice@shop'), /"msg":"metrics are served on the socket only; .* set metrics\.listen"/)
      t.notMatch(await said('sluice@shop'), '"msg":"metrics are served"')
      t.match(await said('sluice'), '"msg":"metrics are served"')
      t.notMatch(`${await said('sluice')}${await said('sluice@shop')}`, /SLUICE_ORPHANED|SLUICE_SOURCE_REPEATS/)
    },
  },
]
