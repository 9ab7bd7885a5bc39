import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { checkout } from './checkout.js'

export interface PackageServer {
  readonly url: string
  close(): Promise<void>
}

interface Locked {
  readonly version: string
  readonly dev?: boolean
}

/** What is large and has no part in running. */
const LEFT_OUT = ['./node_modules', './prebuilds/[adw]*', './deps', './docs', './test', '*.ts', '*.cts', '*.map']

/** Versions and their folders, by the name of the package. */
function installed(): Map<string, Map<string, string>> {
  const text = readFileSync(join(checkout, 'package-lock.json'), 'utf8')
  const { packages } = JSON.parse(text) as { packages: Record<string, Locked> }
  const found = new Map<string, Map<string, string>>()
  for (const [path, { version, dev }] of Object.entries(packages)) {
    if (path === '' || dev) continue
    const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
    if (!found.has(name)) found.set(name, new Map())
    found.get(name)!.set(version, join(checkout, path))
  }
  return found
}

/**
 * Gives npm, on loopback, the packages that this checkout has installed and that are not for developers alone: what a
 * package that asks for less than it uses cannot be installed from, and what needs no network.
 */
export async function servePackages(): Promise<PackageServer> {
  const packages = installed()
  const server = createServer((request, response) => {
    const [name = '', version] = decodeURIComponent(request.url!.slice(1)).split('/-/')
    const versions = packages.get(name)
    const folder = versions?.get(version ?? '')
    if (!versions || (version !== undefined && folder === undefined)) {
      response.writeHead(404, { 'content-type': 'application/json' }).end('{}')
    } else if (folder !== undefined) {
      const args = ['-c', '-I', 'gzip -1', ...LEFT_OUT.map(pattern => `--exclude=${pattern}`)]
      args.push('--transform=s,^[.]/,package/,', '-C', folder, './')
      const tar = spawn('tar', args, { stdio: ['ignore', 'pipe', 'inherit'] })
      tar.stdout.pipe(response.writeHead(200, { 'content-type': 'application/octet-stream' }))
    } else {
      const manifests = [...versions].map(([version, folder]) => {
        const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as object
        return [version, { ...manifest, dist: { tarball: `${url}${name}/-/${version}` } }]
      })
      const latest = [...versions.keys()].at(-1)
      const body = { name, 'dist-tags': { latest }, versions: Object.fromEntries(manifests) as unknown }
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  return {
    url,
    async close() {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}
