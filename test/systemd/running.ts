import { until } from '../support/until.js'
import { arrived, type Case, linesFrom, setUp, stays } from './case.js'

const LIB = '/usr/local/lib/sluice'
/** Of the watchdog: long enough for a machine that has other things to do, too. */
const WATCHDOG_S = 6
const FILTER = "type: filter, condition: 'if (.n greater 0)'"
/** Makes processors stand still for as long as a file is there. */
const BREAK = `import { existsSync } from 'node:fs'
import { Stage } from '${LIB}/dist/src/engine/flow/stage.js'

const transform = Stage.prototype._transform
Stage.prototype._transform = function (...args) {
  if (!existsSync('/etc/sluice/stuck')) transform.apply(this, args)
}
`

/** What happens to a daemon that runs for years. */
export const running: readonly Case[] = [
  {
    title: 'watchdog: a stuck component is restarted; a hold, a slow receiver and an idle pipeline are not',
    async run(t, machine) {
      const parts = { processor: FILTER, head: 'shutdown_timeout: 2s\n', options: '    max_in_flight: 1\n' }
      const setup = await setUp(t, machine, { ...parts, key: 'wrong' })
      const { receiver } = setup
      machine.write({ '/etc/sluice/break.mjs': BREAK })
      const settings = { WatchdogSec: `${WATCHDOG_S}s`, RestartSec: '200ms' }
      await machine.edit('sluice', { ...settings, Environment: 'NODE_OPTIONS=--import=/etc/sluice/break.mjs' })
      const runs = async () => (await machine.property('sluice', 'NRestarts')) === '0'

      await machine.tree.sh(`seq -f '{"n":%.0f}' 1 200000 > /var/log/app/app.log`)
      await machine.do('systemctl start sluice')
      await machine.untilProperty('sluice', 'StatusText', /^out holds/)
      t.ok(await stays(3 * WATCHDOG_S * 1000, runs), 'not while it holds, with everything full')
      await machine.do('printf right > /etc/sluice/access-key; systemctl restart sluice')
      await arrived(setup, 200_000)

      receiver.otherwise = { delayMs: 1.5 * WATCHDOG_S * 1000 }
      const before = receiver.requests.length
      for (let n = 200_001; n <= 200_003; n++) {
        await setup.append(n, n)
        await until('the next request', () => receiver.requests.length > before + n - 200_001)
      }
      t.ok(await stays(2 * WATCHDOG_S * 1000, runs), 'not while the receiver takes its time')
      await arrived(setup, 200_003)
      receiver.otherwise = 200
      t.ok(await stays(2 * WATCHDOG_S * 1000, runs), 'not while there is nothing to do')

      await machine.do('touch /etc/sluice/stuck')
      await setup.append(200_004, 200_013)
      await machine.untilProperty('sluice', 'StatusText', /^busy is stuck/)
      await machine.do('systemctl status sluice; rm /etc/sluice/stuck')
      await machine.untilProperty('sluice', 'NRestarts', /^1$/)
      await arrived(setup, 200_013)
      t.same(receiver.lines().slice(-10), linesFrom(200_004, 200_013), 'what it had is delivered after the restart')
      t.match(await machine.do('journalctl -u sluice -o cat -g "Watchdog|SLUICE_STUCK"'), /Watchdog timeout/)
      t.equal(receiver.lines().length, 200_013, 'each line once')
    },
  },
  {
    title: 'kill -9: started again, and nothing is lost',
    async run(t, machine) {
      const setup = await setUp(t, machine)
      await machine.edit('sluice', { RestartSec: '200ms' })
      await machine.do('systemctl start sluice')
      for (let kills = 1; kills <= 3; kills++) {
        const from = 1000 * (kills - 1)
        await setup.append(from + 1, from + 500)
        await arrived(setup, from + 1)
        await machine.do('systemctl kill --signal=KILL sluice')
        await setup.append(from + 501, from + 1000)
        await machine.untilProperty('sluice', 'NRestarts', new RegExp(`^${kills}$`))
        await machine.untilProperty('sluice', 'ActiveState', /^active$/)
      }
      await arrived(setup, 3000)
      t.same([...new Set(setup.receiver.lines())].length, 3000)
      t.match(await machine.do('systemctl status sluice'), /Status: "delivers to out"/)
    },
  },
  {
    title: 'stop: within its time though the receiver hangs; the rest is delivered by the next start',
    async run(t, machine) {
      const setup = await setUp(t, machine, { head: 'shutdown_timeout: 6s\n' })
      setup.receiver.otherwise = { hang: 'after_body' }
      // Less than the daemon asks for: it tells systemd how long its end may take.
      await machine.edit('sluice', { TimeoutStopSec: '2s' })
      await machine.do('systemctl start sluice')
      await setup.append(1, 100)
      await until('a request', () => setup.receiver.requests.length > 0)
      await machine.do('systemctl stop sluice')
      t.equal(await machine.property('sluice', 'Result'), 'success', 'not killed')
      const ended = (await machine.journal('sluice')).find(({ MESSAGE = '' }) => MESSAGE.includes('"msg":"ended"'))
      t.match(ended?.MESSAGE, /"undelivered":100/)
      setup.receiver.otherwise = 200
      await machine.do('systemctl start sluice')
      await arrived(setup, 100)
      t.same(setup.receiver.lines(), linesFrom(1, 100))
    },
  },
  {
    title: 'upgrade in place: new code, a restart, and every line once, in order',
    async run(t, machine) {
      const setup = await setUp(t, machine)
      await machine.do('systemctl start sluice')
      const lines = 'for n in $(seq 1 1500); do echo "{\\"n\\":$n}" >> /var/log/app/app.log; sleep 0.005; done'
      const writing = machine.tree.sh(lines, { timeoutMs: 200_000 })
      await arrived(setup, 100)
      await machine.do(
        `cp -a ${LIB} ${LIB}.new; sed -i 's/"version": ".*"/"version": "9.9.9"/' ${LIB}.new/package.json`,
      )
      await machine.do(`mv ${LIB} ${LIB}.old; mv ${LIB}.new ${LIB}; systemctl restart sluice`)
      await writing
      await arrived(setup, 1500)
      t.same(setup.receiver.lines(), linesFrom(1, 1500))
      t.match(await machine.do('journalctl -u sluice -o cat -g started'), /"version":"9\.9\.9"/)
      await machine.do(`rm -r ${LIB}; mv ${LIB}.old ${LIB}`)
    },
  },
  {
    title: 'logrotate: what it renames and what it truncates is read to the last line, once',
    async run(t, machine) {
      const setup = await setUp(t, machine)
      await machine.do('install -m 0640 -g adm /dev/null /var/log/app/copied.log; systemctl start sluice')
      const common = 'rotate 9\n  su root root\n'
      machine.write({
        '/etc/logrotate.d/renamed': `/var/log/app/app.log {\n  ${common}  create 0640 root adm\n}\n`,
        '/etc/logrotate.d/copied': `/var/log/app/copied.log {\n  ${common}  copytruncate\n}\n`,
      })
      const rotate = (name: string) => machine.do(`logrotate --force /etc/logrotate.d/${name}`)
      let n = 0
      for (let round = 0; round < 4; round++) {
        await setup.append(n + 1, n + 200)
        await rotate('renamed')
        await setup.append(n + 201, n + 300)
        await setup.append(n + 301, n + 400, 'copied.log')
        // What is written between the last read and the truncation is lost by nature.
        await arrived(setup, n + 400)
        await rotate('copied')
        await setup.append(n + 401, n + 500, 'copied.log')
        n += 500
        await arrived(setup, n)
      }
      const sorted = setup.receiver.lines().map(line => JSON.parse(line).n as number)
      t.same(
        sorted.sort((a, b) => a - b),
        Array.from({ length: n }, (_, i) => i + 1),
      )
      await machine.do('ls -l /var/log/app')
    },
  },
]
