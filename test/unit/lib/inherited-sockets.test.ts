import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer as createHttp, request } from 'node:http'
import { connect, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { InheritedSockets, inheritedSockets, listenOn, listenText } from '../../../src/lib/network/inherited-sockets.js'
import { HOST, ownPort } from '../../support/address.js'
import { bound } from '../../support/bound.js'
import { needs } from '../../support/needs.js'
import { until } from '../../support/until.js'

/** This file is its own child: started with two sockets, it serves one by HTTP, reads the other, and does what it is told. */
const CHILD = 'SLUICE_TEST_CHILD'

async function serveAsChild(): Promise<void> {
  const say = (text: string) => process.stdout.write(`${text}\n`)
  let servers: Server[] = []
  const open = async (name: string) => {
    const web = createHttp((_, response) => response.end(name))
    const lines = createServer(socket => socket.on('data', data => say(`${name} has ${data}`)))
    servers = [web, lines]
    say(`web at ${await listenOn(web, { systemd: 'web' })}`)
    say(`lines at ${await listenOn(lines, { systemd: 'lines' })}`)
  }
  await open('first')
  for (const systemd of ['lines', 'none'])
    await listenOn(createServer(), { systemd }).catch(error => say(error.message))
  say(`environment: ${Object.keys(process.env).filter(key => key.startsWith('LISTEN_'))}`)
  process.stdin.on('data', async text => {
    for (const command of String(text).trim().split('\n')) {
      if (command === 'open') await open('second')
      if (command === 'leave') inheritedSockets().stopAccepting()
      if (command === 'close') for (const server of servers) await new Promise(resolve => server.close(resolve))
      say(`${command} is done`)
    }
  })
}

function get(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const call = request({ port, host: HOST, agent: false }, response => {
      let text = ''
      response.setEncoding('utf8').on('data', part => (text += part))
      response.on('end', () => resolve(text))
    })
    call.on('error', reject)
    call.end()
  })
}

if (process.env[CHILD]) await serveAsChild()
else {
  t.test('what the environment says', async t => {
    const claimed = (env: NodeJS.ProcessEnv) =>
      InheritedSockets.from(env, 7)
        .claim('a', { take() {} })
        .then(
          () => 'claimed',
          error => error.message,
        )
    const none = /has not passed a socket named a: it has not passed any; start the service by its .socket unit/
    t.match(await claimed({}), none)
    t.match(await claimed({ LISTEN_PID: '8', LISTEN_FDS: '1', LISTEN_FDNAMES: 'a' }), none, 'meant for another process')
    t.match(await claimed({ LISTEN_PID: '7', LISTEN_FDS: 'x', LISTEN_FDNAMES: 'a' }), none)
    t.match(
      await claimed({ LISTEN_PID: '7', LISTEN_FDS: '2', LISTEN_FDNAMES: 'b:c' }),
      /a socket named a: it has passed b, c/,
    )
    const env = { LISTEN_PID: '7', LISTEN_FDS: '1', LISTEN_FDNAMES: 'a', LISTEN_STREAM: 'no business of ours' }
    InheritedSockets.from(env, 7)
    t.same(Object.keys(env), ['LISTEN_STREAM'], 'what is started from here does not take them for its own')
    const left = new InheritedSockets([{ fd: 99, name: 'a' }])
    left.stopAccepting()
    await t.rejects(left.claim('a', { take() {} }), {
      message: /a that systemd passed was released.*restart/,
    })
    t.equal(listenText({ systemd: 'a' }), 'systemd:a')
    t.equal(listenText({ host: '::1', port: 1 }), '[::1]:1')
  })

  t.test('sockets that really are handed over', async t => {
    const activate = needs(t, 'systemd-socket-activate')
    if (!activate) return
    const port = await ownPort()
    // The path of a socket has to be short.
    const folder = mkdtempSync(join(tmpdir(), 'sockets-'))
    t.teardown(() => rmSync(folder, { recursive: true }))
    const path = join(folder, 'lines')
    const sockets = ['-l', `${HOST}:${port}`, '-l', path, '--fdname=web:lines', '-E', `${CHILD}=1`]
    const child = spawn(...bound(activate, [...sockets, process.execPath, fileURLToPath(import.meta.url)]))
    t.teardown(() => void child.kill('SIGKILL'))
    let said = ''
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', text => (said += text))
    const says = (what: string) => until(what, () => said.includes(what), { show: () => said })
    const tell = async (command: string) => {
      child.stdin.write(`${command}\n`)
      await says(`${command} is done`)
    }
    const write = async (text: string) => {
      const socket = connect(path)
      await once(socket, 'connect')
      socket.end(text)
      return socket
    }
    await says(`Listening on ${path}`)

    const early = get(port)
    t.equal(await early, 'first', 'the connection that it was started for')
    await says('environment:')
    t.match(said, `web at ${HOST}:${port}\nlines at systemd:lines\n`)
    t.match(said, 'the socket lines that systemd passed is in use already')
    t.match(said, 'systemd has not passed a socket named none: it has passed web, lines')
    t.match(said, /environment: $/m, 'what it starts does not take them for its own')
    await write('one')
    await says('first has one')

    await tell('close')
    const waiting = get(port)
    await write('two')
    await tell('open')
    t.equal(await waiting, 'second', 'a request that came while nobody took them')
    await says('second has two')

    await tell('leave')
    await t.rejects(get(port), { code: 'ECONNREFUSED' }, 'nobody else has the socket, or it would wait')
  })
}
