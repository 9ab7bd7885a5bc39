import { until } from '../support/until.js'
import { type Case, setUp } from './case.js'

const UNIT = '[Service]\nType=oneshot\nExecStart=/bin/sh /usr/local/bin/noisy\n'
// The last one stays for a moment: of a process that is gone journald cannot tell the unit any more.
const SCRIPT = `for n in $(seq $FROM $TO); do echo "line $n"; sleep 0.005; done
systemd-cat -t backup -p err sh -c 'echo "disk is full"; sleep 1'
`
// Other programs of this machine may have the usual port.
const CONFIG = (url: string) => `metrics: { listen: 127.0.0.1:0 }
sources:
  units: { type: journald, units: [noisy], read_from: end, include_fields: [_TRANSPORT] }
destinations:
  out:
    type: http
    inputs: [units]
    url: ${url}
    auth: { type: token, credential: access-key }
    batch: { max_wait: 100ms }
`

interface Logged {
  readonly message: string
  readonly severity?: string
  readonly app?: string
}

/** The journal as a source, with services that log to it. */
export const journal: readonly Case[] = [
  {
    title: 'journald: what a service logs, through a rotated journal, a restart and a kill',
    async run(t, machine) {
      const { receiver } = await setUp(t, machine)
      machine.write({
        '/etc/sluice/sluice.yaml': CONFIG(receiver.url()),
        '/etc/systemd/system/noisy.service': UNIT,
        '/usr/local/bin/noisy': SCRIPT,
      })
      await machine.edit('sluice', { RestartSec: '200ms' })
      await machine.do('systemctl start sluice')
      // It is ready before it knows where the journal ends.
      await machine.until('cat /var/lib/sluice/checkpoints/units.json', said => said.includes('"cursor":'))
      const logged = () => receiver.lines().map(line => JSON.parse(line) as Logged)
      const lines = () => logged().flatMap(({ message }) => /^line (\d+)$/.exec(message)?.[1] ?? [])
      const log = (from: number, to: number) =>
        machine.do(`systemctl set-environment FROM=${from} TO=${to}; systemctl start noisy`, { timeoutMs: 120_000 })
      const upTo = (n: number) => Array.from({ length: n }, (_, i) => String(i + 1))

      await log(1, 100)
      await until('the first hundred', () => lines().length >= 100)
      const writing = log(101, 500)
      await until('some of the next', () => lines().length > 150)
      await machine.do('journalctl --rotate')
      await machine.do('systemctl restart sluice')
      await writing
      await until('all', () => lines().length >= 500)
      t.same(lines(), upTo(500), 'each line once, in order')
      t.match(
        logged().find(({ message }) => message === 'line 1'),
        { unit: 'noisy.service', app: 'sh', severity: 'info', _TRANSPORT: 'stdout' },
      )
      await until('what it logs as an error', () => logged().some(({ app }) => app === 'backup'))
      t.match(
        logged().find(({ app }) => app === 'backup'),
        { message: 'disk is full', severity: 'err', severity_code: 3, unit: 'noisy.service' },
      )

      const again = log(501, 700)
      await until('some of them', () => lines().length > 550)
      await machine.do('systemctl kill --signal=KILL sluice')
      await again
      await until('all of them', () => new Set(lines()).size >= 700)
      t.same([...new Set(lines())], upTo(700), 'none lost')
      await machine.untilProperty('sluice', 'ActiveState', /^active$/)
      const running = (said: string) => said.match(/^\S+ +journalctl$/gm)?.length
      await machine.until('ps -e -o stat,comm | grep -E "^Z|journalctl"', said => running(said) === 1)
      await machine.do('systemctl stop sluice')
      t.notMatch(await machine.do('ps -e -o comm'), /journalctl/)
    },
  },
]
