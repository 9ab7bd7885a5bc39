import { arrived, type Case, configOf, linesFrom, setUp, stays } from './case.js'

/** The first systemd that can wait for a reload. */
const NOTIFY_RELOAD = 253

/** Starting, holding, reloading, and configurations that are wrong. */
export const starting: readonly Case[] = [
  {
    title: 'start: ready when every destination is, as a user of its own, with priorities in the journal',
    async run(t, machine) {
      const setup = await setUp(t, machine)
      await setup.append(1, 10)
      await machine.do('systemctl start sluice')
      t.equal(await machine.property('sluice', 'ActiveState'), 'active', 'start returns when it is ready')
      await arrived(setup, 10)
      t.same(setup.receiver.lines(), linesFrom(1, 10))
      t.match(await machine.do('systemctl status sluice'), /Status: "delivers to out"/)
      const pid = await machine.property('sluice', 'MainPID')
      const uid = Number(await machine.do(`stat -c %u /proc/${pid}`))
      t.ok(uid >= 61184 && uid <= 65519, 'a user of its own, for as long as it runs')
      t.match(await machine.do('sluice status'), /ready/)
      await setup.append(11, 11)
      await arrived(setup, 11)
      const started = (await machine.journal('sluice')).find(({ MESSAGE = '' }) => MESSAGE.includes('"msg":"started"'))
      t.equal(started?.PRIORITY, '6')
      t.match(started?.MESSAGE, /^\{"level":30/, 'the priority is no part of the line')
      await machine.do('systemctl stop sluice')
      t.equal(await machine.property('sluice', 'Result'), 'success')
    },
  },
  {
    title: 'hold: it has started, the status says why; another key is a restart, and nothing is lost',
    async run(t, machine) {
      const setup = await setUp(t, machine, { key: 'wrong', head: 'shutdown_timeout: 2s\n' })
      await setup.append(1, 5)
      await machine.do('systemctl start sluice')
      t.equal(await machine.property('sluice', 'ActiveState'), 'active')
      await machine.untilProperty('sluice', 'StatusText', /^out holds: status 401$/)
      const held = (await machine.journal('sluice')).find(({ MESSAGE = '' }) =>
        MESSAGE.includes('the destination is paused'),
      )
      t.equal(held?.PRIORITY, '3')
      await machine.do('printf right > /etc/sluice/access-key; systemctl restart sluice; systemctl status sluice')
      await arrived(setup, 5)
      t.same(setup.receiver.lines(), linesFrom(1, 5))
      await machine.untilProperty('sluice', 'StatusText', /^delivers to out$/)
      await machine.do('systemctl stop sluice; rm /etc/sluice/access-key; systemctl start sluice')
      await setup.append(6, 6)
      await machine.untilProperty('sluice', 'StatusText', /^out holds: no key$/)
    },
  },
  {
    title: 'reload: another configuration takes over; a wrong one changes nothing, and the status says so',
    async run(t, machine) {
      const setup = await setUp(t, machine)
      const { receiver } = setup
      await machine.do('systemctl start sluice')
      await setup.append(1, 3)
      await arrived(setup, 3)
      const pid = await machine.property('sluice', 'MainPID')
      const next = configOf(receiver.url('/next'))
      machine.write({ '/etc/sluice/sluice.yaml': next })
      await machine.do('systemctl reload sluice')
      await machine.until('journalctl -u sluice -o cat', said => said.includes('configuration reloaded'))
      await machine.untilProperty('sluice', 'ActiveState', /^active$/)
      await setup.append(4, 6)
      await arrived(setup, 6)
      t.same(receiver.requests.filter(({ path }) => path === '/next').length > 0, true)

      machine.write({ '/etc/sluice/sluice.yaml': next.replace('url:', 'uri:') })
      await machine.do('systemctl reload sluice')
      const status = await machine.untilProperty('sluice', 'StatusText', /^cannot apply the new configuration/)
      t.match(status, '/etc/sluice/sluice.yaml:', 'with the place')
      await machine.untilProperty('sluice', 'ActiveState', /^active$/)
      await setup.append(7, 9)
      await arrived(setup, 9)
      await machine.do('systemctl status sluice')

      machine.write({ '/etc/sluice/sluice.yaml': next })
      await machine.do('systemctl reload sluice')
      await machine.untilProperty('sluice', 'StatusText', /^delivers to out$/)
      t.equal(await machine.property('sluice', 'MainPID'), pid, 'the same process all the time')
      t.same(receiver.lines(), linesFrom(1, 9), 'each line once, in order')
    },
  },
  {
    title: 'reload, where systemd can wait for it: done when systemctl comes back',
    async run(t, machine) {
      const version = Number(/^systemd (\d+)/.exec(await machine.do('systemctl --version'))?.[1])
      if (version < NOTIFY_RELOAD) {
        t.pass(`systemd ${version} cannot; SLUICE_SUITE=trixie boots one that can`)
        return
      }
      const setup = await setUp(t, machine)
      const { receiver } = setup
      const options = { Type: 'notify-reload', ExecReload: '' }
      await machine.edit('sluice', options)
      await machine.do('systemctl start sluice')
      const pid = await machine.property('sluice', 'MainPID')
      for (let n = 1; n <= 5; n++) {
        machine.write({ '/etc/sluice/sluice.yaml': configOf(receiver.url(`/${n}`)) })
        await machine.do('systemctl reload sluice')
        await setup.append(n, n)
        await arrived(setup, n)
        t.equal(receiver.requests.at(-1)?.path, `/${n}`, 'what comes then goes by the new one')
      }
      machine.write({ '/etc/sluice/sluice.yaml': configOf(receiver.url()).replace('url:', 'uri:') })
      await machine.do('systemctl reload sluice')
      await machine.until('journalctl -u sluice -o cat -n 5', said =>
        said.includes('cannot apply the new configuration'),
      )
      t.equal(await machine.property('sluice', 'MainPID'), pid)
    },
  },
  {
    title: 'a wrong configuration at the start: failed, told, and not tried again; what else fails is',
    async run(t, machine) {
      await setUp(t, machine)
      await machine.edit('sluice', { RestartSec: '200ms' })
      await machine.do('sed -i s/url:/uri:/ /etc/sluice/sluice.yaml')
      await machine.do('systemctl start sluice')
      t.match(await machine.do('systemctl status sluice'), /sluice.yaml:\d+:\d+: /)
      t.equal(await machine.property('sluice', 'ExecMainStatus'), '78')
      const still = async () =>
        `${await machine.property('sluice', 'ActiveState')} ${await machine.property('sluice', 'NRestarts')}` ===
        'failed 0'
      t.ok(await stays(3000, still), 'it stays so')
      const told = (await machine.journal('sluice')).filter(({ MESSAGE = '' }) => MESSAGE.includes('sluice.yaml:'))
      t.ok(
        told.length >= 2 && told.every(({ PRIORITY }) => PRIORITY === '3'),
        'an error, of the check and of the daemon',
      )

      await machine.do('sed -i s/uri:/url:/ /etc/sluice/sluice.yaml')
      await machine.do('systemctl start sluice')
      t.equal(await machine.property('sluice', 'ActiveState'), 'active', 'corrected, it starts')
      await machine.do('sed -i s/127.0.0.1:0/192.0.2.1:9598/ /etc/sluice/sluice.yaml; systemctl restart sluice')
      await machine.untilProperty('sluice', 'NRestarts', /^[2-9]|^\d\d/)
    },
  },
]
