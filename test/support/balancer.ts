import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { HOST, ownPort } from './address.js'
import { bound } from './bound.js'
import { checkout } from './checkout.js'
import { needs } from './needs.js'
import { nginxArgs, nginxConfig } from './nginx.js'
import type { ServedNode } from './nodes.js'
import { until } from './until.js'

/** Load balancers in front of nodes of the service, as docs/scale.md sets them up. */

interface Balancer {
  readonly program: string
  readonly args: (file: string, folder: string) => string[]
  readonly config: (port: number, nodes: readonly ServedNode[], folder: string) => string
}

const KINDS: Record<string, Balancer> = {
  HAProxy: {
    program: 'haproxy',
    args: file => ['-db', '-f', file],
    config: (port, nodes) => `
defaults
  mode http
  timeout connect 1s
  timeout client 60s
  timeout server 60s
frontend service
  bind ${HOST}:${port}
  default_backend nodes
${backendOf(nodes)}`,
  },
  nginx: {
    program: 'nginx',
    args: nginxArgs,
    config: (port, nodes, folder) =>
      nginxConfig(
        folder,
        `  upstream nodes {
${nodes.map(node => `    server ${HOST}:${node.port} max_fails=1 fail_timeout=2s;\n`).join('')}  }
  server {
    listen ${HOST}:${port};
    client_max_body_size 16m;
    location / {
      proxy_pass http://nodes;
      proxy_connect_timeout 1s;
      proxy_read_timeout 3s;
      proxy_next_upstream error timeout;
    }
  }`,
      ),
  },
}

/** The section of HAProxy's configuration in docs/scale.md, with these servers. */
function backendOf(nodes: readonly ServedNode[]): string {
  const [documented] = /^backend nodes\n( .*\n)+/m.exec(readFileSync(join(checkout, 'docs/scale.md'), 'utf8'))!
  const servers = nodes.map((node, i) => `  server n${i} ${HOST}:${node.port} check port ${node.metricsPort}\n`)
  return documented.replace(/^ *server .*\n/gm, '') + servers.join('')
}

export const BALANCERS = Object.keys(KINDS)

/** Resolves with its URL; undefined: it is not installed. */
export async function startBalancer(t: Test, name: string, nodes: readonly ServedNode[]): Promise<string | undefined> {
  const { program, args, config } = KINDS[name]!
  const path = needs(t, program)
  if (!path) return undefined
  const folder = t.testdirName
  const port = await ownPort()
  const file = join(folder, `${program}.cfg`)
  writeFileSync(file, config(port, nodes, folder))
  const child = spawn(...bound(path, args(file, folder)), { stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', text => (said += text))
  t.teardown(() => child.kill('SIGTERM'))
  const url = `http://${HOST}:${port}`
  const answers = () =>
    fetch(`${url}/v3/openapi.json`).then(
      ({ status }) => status < 500,
      () => false,
    )
  await until(`${name} to answer`, answers, { show: () => said })
  return url
}
