import { arrived, type Case, setUp } from './case.js'
import type { Machine } from './machine.js'

interface Finding {
  readonly area: string
  readonly what: string
  readonly commands: readonly string[]
}

/** What doctor finds. The clock is that of the machine which the tree shares. */
async function findings(machine: Machine): Promise<Finding[]> {
  const { stdout } = await machine.tree.run('sh', ['-c', 'sluice doctor --json /etc/sluice/sluice.yaml'])
  const { findings } = JSON.parse(stdout) as { findings: Finding[] }
  return findings.filter(({ area }) => area !== 'clock')
}

/** Runs the commands; what all of them end with, once. */
async function mend(machine: Machine, found: readonly Finding[]): Promise<void> {
  const all = new Set(found.flatMap(({ commands }) => commands))
  const last = ['systemctl daemon-reload', 'systemctl restart sluice.service']
  for (const command of [...[...all].filter(one => !last.includes(one)), ...last]) await machine.do(command)
}

export const doctor: readonly Case[] = [
  {
    title: 'doctor: what the user of the unit may do, stopped and running, and commands that mend the unit',
    async run(t, machine) {
      const setup = await setUp(t, machine, {
        options: '    buffer: { type: memory }\n  kept: { type: file, inputs: [app], path: /srv/kept/x.ndjson }\n',
      })
      await machine.do('systemctl disable sluice; mkdir -p /srv/kept; chmod 777 /srv/kept')
      const stopped = await findings(machine)
      t.match(
        stopped.map(({ what }) => what),
        [/^sluice\.service is inactive/, /does not start with the machine/, /ReadWritePaths= .*\/srv\/kept/],
      )
      t.equal(stopped.length, 3, JSON.stringify(stopped))
      await mend(machine, stopped)
      await machine.untilProperty('sluice', 'ActiveState', /^active$/)
      t.same(await findings(machine), [], 'its key, its log and its state are in order')

      await machine.edit('sluice', { LimitNOFILE: '99', MemoryMax: '100M' })
      await machine.do('install -m 0640 -g games /dev/null /var/log/app/games.log; systemctl restart sluice')
      await setup.append(1, 10, 'games.log')
      const running = await findings(machine)
      t.match(
        running.map(({ what }) => what),
        [/sluice cannot read \/var\/log\/app\/games\.log \(EACCES\)/, /MemoryMax=/, /LimitNOFILE=/],
      )
      await mend(machine, running)
      await arrived(setup, 10)
      t.same(await findings(machine), [])
      await machine.do('rm -r /etc/systemd/system/sluice.service.d /srv/kept; systemctl daemon-reload')
    },
  },
]
