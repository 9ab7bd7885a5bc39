import { existsSync, mkdirSync, readdirSync, readlinkSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { askSocket, textOf } from '../../../../src/daemon/admin/ask-socket.js'
import { listenAtSocket, socketPath } from '../../../../src/daemon/admin/socket.js'
import { testFolder } from '../../../support/folder.js'

/** What of a folder this process has open. */
const open = (folder: string) =>
  readdirSync('/proc/self/fd').filter(fd => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(folder)
    } catch {
      return false
    }
  })

t.test('a socket at a path of any length, for its owner alone', async t => {
  const far = join(testFolder(t), 'a'.repeat(120), 'b'.repeat(120))
  mkdirSync(far, { recursive: true })
  for (const folder of [t.testdirName, far]) {
    const path = socketPath(folder)
    writeFileSync(path, 'left by a process that is gone')
    const server = createServer((request, response) => {
      void textOf(request).then(body => response.writeHead(202).end(`${request.method} ${request.url} ${body}`))
    })
    const mask = process.umask()
    await listenAtSocket(server, path)
    t.equal(process.umask(), mask)
    t.equal(statSync(path).mode & 0o777, 0o600)
    const answer = await askSocket(path, { path: '/x?y', method: 'POST' }, 'text')
    t.same([answer.statusCode, await textOf(answer)], [202, 'POST /x?y text'])
    if (folder === far) t.equal(open(folder).length, 1, 'the folder, for the server')
    await new Promise(resolve => {
      server.close(resolve)
      server.closeAllConnections()
    })
    t.notOk(existsSync(path), 'the socket goes with its server')
    await t.rejects(askSocket(path, { path: '/' }), { code: 'ENOENT' })
    writeFileSync(path, '')
    await t.rejects(askSocket(path, { path: '/' }), { code: 'ECONNREFUSED' })
  }
  await t.rejects(askSocket(join(far, 'none'.repeat(30), 'x'), { path: '/' }), { code: 'ENOENT' })
  for (const missing of ['none', 'none'.repeat(30)]) {
    const path = join(tmpdir(), `sluice-${process.pid}-${missing}`, 'x')
    await t.rejects(listenAtSocket(createServer(), path), { code: 'ENOENT' })
  }
  t.same(open(t.testdirName), [], 'no descriptor is left')
})
