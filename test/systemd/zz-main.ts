import t from 'tap'
import { setUp } from './case.js'
import { Machine } from './machine.js'

const tell = (line: string) => void process.stderr.write(`        ${line}\n`)
const machine = await Machine.boot(tell)
t.teardown(() => machine.tree.end())
t.setTimeout(300_000)
t.test('x', { timeout: 240_000 }, async t => {
  await machine.reset()
  const { receiver } = await setUp(t, machine)
  machine.write({
    '/etc/sluice/sluice.yaml': `sources:
  units: { type: journald, units: [noisy], read_from: end, include_fields: [_TRANSPORT] }
destinations:
  out: { type: http, inputs: [units], url: ${receiver.url()}, auth: { type: token, credential: access-key }, batch: { max_wait: 100ms } }
`,
    '/usr/local/bin/noisy': 'for n in $(seq $FROM $TO); do echo "line $n"; sleep 0.005; done\n',
    '/etc/systemd/system/noisy.service': '[Service]\nType=oneshot\nExecStart=/bin/sh /usr/local/bin/noisy\n',
  })
  await machine.do('systemctl daemon-reload; systemctl start sluice; sleep 2; P=$(pgrep journalctl); cat /proc/$P/fdinfo/3; systemctl set-environment FROM=1 TO=30; systemctl start noisy; sleep 4; ls -li /var/log/journal/*; P=$(pgrep journalctl); cat /proc/$P/fdinfo/3;  sluice status -c /etc/sluice/sluice.yaml; cat /proc/$P/mountinfo | grep var; cat /proc/$P/net/unix | wc -l; ls -liL /proc/$P/fd/5; systemd-cat echo hi; sleep 1;  sluice status -c /etc/sluice/sluice.yaml; dd if=/proc/$P/fd/1 of=/tmp/xx bs=1 count=1')
 tell('received ' + receiver.lines().length)
})
