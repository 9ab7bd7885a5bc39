import { once } from 'node:events'
import { request } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { HOST, ownPort } from '../support/address.js'
import { startReceiver } from '../support/receiver.js'
import { until } from '../support/until.js'
import { type Case, KEY, stays } from './case.js'

const PAUSE_MS = 20
const JSON_LINES = { 'content-type': 'application/x-ndjson' }

/** One connection, one line; rejects when nobody listens. */
async function sendLine(port: number, line: string): Promise<void> {
  const socket = connect(port, HOST)
  await once(socket, 'connect')
  socket.end(`${line}\n`)
  socket.resume()
  await once(socket, 'close')
}

/** The status of the answer. */
function post(port: number, body: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const call = request({ port, host: HOST, method: 'POST', headers: JSON_LINES, agent: false }, response => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0))
    })
    call.on('error', reject).end(body)
  })
}

const socketUnit = (name: string, port: number, service = 'sluice') => `[Socket]
ListenStream=${HOST}:${port}
FileDescriptorName=${name}
Service=${service}.service

[Install]
WantedBy=sockets.target
`

/** Sockets, and the service. */
export const around: readonly Case[] = [
  {
    title: 'socket activation: started by the first connection; what comes during restarts waits, nothing is refused',
    async run(t, machine) {
      const receiver = await startReceiver({ authorization: KEY })
      t.teardown(() => receiver.close())
      const [lines, web, metrics] = [await ownPort(), await ownPort(), await ownPort()]
      machine.write({
        '/etc/sluice/sluice.yaml': `metrics: { listen: systemd:metrics }
sources:
  lines: { type: tcp, listen: systemd:lines, decode: json }
  web: { type: http, listen: systemd:web }
destinations:
  out:
    type: http
    inputs: [lines, web]
    url: ${receiver.url()}
    auth: { type: token, credential: access-key }
    batch: { max_wait: 100ms }
`,
        '/etc/sluice/access-key': 'right',
        '/etc/systemd/system/sluice-lines.socket': socketUnit('lines', lines),
        '/etc/systemd/system/sluice-web.socket': socketUnit('web', web),
        '/etc/systemd/system/sluice-metrics.socket': socketUnit('metrics', metrics),
      })
      await machine.do(
        'systemctl daemon-reload; systemctl start sluice-lines.socket sluice-web.socket sluice-metrics.socket',
      )
      t.equal(await machine.property('sluice', 'ActiveState'), 'inactive')
      await sendLine(lines, '{"early":true}')
      await until('the first line', () => receiver.lines().includes('{"early":true}'))
      await machine.untilProperty('sluice', 'ActiveState', /^active$/)
      t.match(await (await fetch(`http://${HOST}:${metrics}/metrics`)).text(), /sluice_build_info/)

      let isOver = false
      const wrong: string[] = []
      const sent: string[] = []
      const posted: string[] = []
      const sending = (async () => {
        for (let n = 1; !isOver; n++) {
          const line = `{"line":${n}}`
          await sendLine(lines, line).catch(error => wrong.push(String(error)))
          sent.push(line)
          await sleep(PAUSE_MS)
        }
      })()
      const posting = (async () => {
        for (let n = 1; !isOver; n++) {
          const line = `{"post":${n}}`
          // What is under way while it ends is not taken, and said so: it comes again. Nobody listening is another matter.
          for (let status = 0; status !== 202; ) {
            status = await post(web, `${line}\n`).catch(error => {
              if (error.code !== 'ECONNRESET') wrong.push(String(error))
              return 503
            })
            if (status !== 202 && status !== 503) wrong.push(`status ${status}`)
            if (wrong.length > 0) return
          }
          posted.push(line)
          await sleep(PAUSE_MS)
        }
      })()
      for (let restarts = 0; restarts < 3; restarts++) {
        const count = sent.length + posted.length
        await until('more lines', () => sent.length + posted.length > count + 20)
        await machine.do('systemctl restart sluice')
      }
      await machine.do('systemctl reload sluice')
      isOver = true
      await Promise.all([sending, posting])
      t.same(wrong, [], 'nothing is refused')
      const all = [...sent, ...posted]
      await until('all lines', () => {
        const there = new Set(receiver.lines())
        return all.every(line => there.has(line))
      })
      await machine.do('systemctl status sluice sluice-lines.socket')
    },
  },
  {
    title: 'the service: ready, its first keys, a watchdog of its own, a wrong configuration',
    async run(t, machine) {
      const [port, metrics] = [await ownPort(), await ownPort()]
      const config = `metrics: { listen: ${HOST}:${metrics} }\nservice:\n  listen: ${HOST}:${port}\n`
      machine.write({ '/etc/sluice/service.yaml': config })
      await machine.edit('sluice-api', { WatchdogSec: '6s', RestartSec: '200ms' })
      await machine.do('systemctl start sluice-api; systemctl status sluice-api')
      t.equal(await machine.property('sluice-api', 'StatusText'), `serves at http://${HOST}:${port}/v3`)
      const init = 'STATE_DIRECTORY=/var/lib/sluice-api sluice admin init --config /etc/sluice/service.yaml --json'
      const { manager } = JSON.parse(await machine.tree.sh(init)) as { manager: { key: string } }
      const whoami = async () => {
        const headers = { authorization: `Token ${manager.key}`, connection: 'close' }
        return (await fetch(`http://${HOST}:${port}/v3/auth/token`, { headers })).status
      }
      t.equal(await whoami(), 200)
      const runs = async () => (await machine.property('sluice-api', 'NRestarts')) === '0'
      t.ok(await stays(15_000, runs), 'the watchdog is fed')
      await machine.do('kill -STOP $(systemctl show -P MainPID sluice-api)')
      await machine.untilProperty('sluice-api', 'NRestarts', /^1$/)
      await machine.untilProperty('sluice-api', 'ActiveState', /^active$/)
      t.equal(await whoami(), 200, 'what it knew it knows')
      await machine.do('systemctl stop sluice-api')
      machine.write({
        '/etc/sluice/service.yaml': config.replace(`${HOST}:${port}`, 'systemd:api'),
        '/etc/systemd/system/sluice-api.socket': socketUnit('api', port, 'sluice-api'),
      })
      await machine.do('systemctl daemon-reload; systemctl start sluice-api.socket')
      t.equal(await whoami(), 200, 'started by the request')
      await Promise.all([machine.do('systemctl restart sluice-api'), sleep(100)])
      t.equal(await whoami(), 200, 'and after a restart')
      await machine.do('sed -i s/^..listen:/..listens:/ /etc/sluice/service.yaml; systemctl restart sluice-api')
      t.equal(await machine.property('sluice-api', 'ExecMainStatus'), '78')
      t.ok(await stays(2000, async () => (await machine.property('sluice-api', 'ActiveState')) === 'failed'))
      await machine.do('systemctl status sluice-api')
    },
  },
]
