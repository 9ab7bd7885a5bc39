import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of the installed package or checkout: the nearest parent with a package.json. */
export const packageFolder: string = above(dirname(fileURLToPath(import.meta.url)))

function above(folder: string): string {
  const parent = dirname(folder)
  return existsSync(join(folder, 'package.json')) || parent === folder ? folder : above(parent)
}

/** The path of a document of this installation, such as docs/plugins.md. The Debian package has a folder for them. */
export function documentPath(name: string): string {
  const has = (folder: string) => existsSync(join(folder, 'config/reference.md'))
  return join([packageFolder, '/usr/share/doc/sluice'].find(has) ?? '', name)
}

interface Manifest {
  readonly version: string
  readonly engines: { readonly node: string }
  readonly peerDependencies?: Readonly<Record<string, string>>
}

/** The file is read only once, because later the process may have no free file descriptor. */
let known: Manifest | undefined

function manifest(): Manifest {
  known ??= JSON.parse(readFileSync(join(packageFolder, 'package.json'), 'utf8')) as Manifest
  return known
}

export function packageVersion(): string {
  return manifest().version
}

/** The major version of a peer. */
export function peerVersion(name: string): string {
  return /\d+/.exec(manifest().peerDependencies?.[name] ?? '')?.[0] ?? 'latest'
}

/** If the Node.js `version` is too old for the package, returns a message. Otherwise returns undefined. */
export function nodeProblem(version: string = process.versions.node): string | undefined {
  const oldest = manifest().engines.node.replace(/^>=/, '')
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [wantedMajor = 0, wantedMinor = 0] = oldest.split('.').map(Number)
  if (major > wantedMajor || (major === wantedMajor && minor >= wantedMinor)) return undefined
  return `Node.js ${oldest} or newer is needed, and ${process.execPath} is ${version}`
}
