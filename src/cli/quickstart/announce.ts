import { basename, isAbsolute, join, relative } from 'node:path'
import { shellWord } from '../../lib/shell-word.js'
import { packageFolder } from '../../lib/version.js'
import type { OwnLog, Receiver } from './plan.js'

/** The person who reads the screen: this person's current folder, and how to call this program from that folder. */
export interface ScreenReader {
  readonly folder: string
  /** How a command begins: `npx sluice`. */
  readonly program: string
}

/** npm runs scripts in the folder of the package, and sets INIT_CWD to the folder where it was called. */
export function readerOf(env: NodeJS.ProcessEnv, main: string): ScreenReader {
  const folder = (env.npm_command && env.INIT_CWD) || process.cwd()
  return { folder, program: programFor(folder, main) }
}

function programFor(folder: string, main: string): string {
  if (basename(main) === 'sluice') return main.includes(join('node_modules', '.bin')) ? 'npx sluice' : 'sluice'
  const inside = relative(packageFolder, folder)
  if (!inside.startsWith('..') && !isAbsolute(inside)) return 'npx sluice'
  return `node ${shown(join(packageFolder, 'dist/src/cli/main.js'), folder)}`
}

/** A path as the reader can type it. */
export function shown(path: string, folder: string): string {
  const near = relative(folder, path)
  return shellWord(near.length < path.length ? near : path)
}

export interface Announced {
  /** The address of the page, with its token. */
  readonly page: string
  readonly configPath: string
  readonly apps: readonly string[]
  /** Events per second: of all apps together, and of each app at most. */
  readonly rate: number
  readonly limit: number
  readonly log: OwnLog | undefined
  readonly receiver: Receiver
  readonly metricsUrl: string | undefined
}

/** The text before the numbers. Its lines fit 80 columns, unless paths are too long. */
export function announce(about: Announced, { folder, program }: ScreenReader): string {
  const { page, apps, rate, limit, log, receiver, metricsUrl } = about
  const here = (path: string) => shown(path, folder)
  const config = here(about.configPath)
  const { url, keyFile, received, metrics } = receiver
  // To a service that the quickstart did not start, a log is sent only on request.
  const noLog = received
    ? 'this user can read no log of this machine; name one with --log FILE'
    : 'not delivered; --log FILE delivers one to the service'
  const rows: [string, string][] = [
    ['apps', `${apps.length} invented apps make ${rate} events per second; one at a time is noisy`],
    ['log', log ? `${here(log.path)}${log.isLong ? ', new lines only' : ''}` : noLog],
    ['limit', `${limit} events per second of each app; events over it are discarded`],
    ['service', received ? `${url}, started for this run` : url],
  ]
  if (keyFile) rows.push(['keys', `${here(keyFile)}*`])
  if (received) rows.push(['received', `${here(received)} has the events that arrived`])
  if (metricsUrl) rows.push(['metrics', metricsUrl])
  if (metrics) rows.push([metricsUrl ? '' : 'metrics', `${metrics} of the service`])
  rows.push(['look', `${program} status --config ${config}`], ['', `${program} top --config ${config}`])
  rows.push(['end', 'Ctrl-C'])
  const head = ['Sluice throttles and delivers events of invented apps. Watch it in a browser:', '', `  ${page}`, '']
  return `${[...head, ...rows.map(rowText), ''].join('\n')}\n`
}

const rowText = ([name, text]: readonly [string, string]) => `  ${name.padEnd(8)}  ${text}`

/** How to continue after the service of the quickstart has ended, with its configuration at `example`. */
export function continueText(example: string, { folder, program }: ScreenReader): string {
  return `
To continue with your own logs, change a copy of the configuration, and run it:
  cp ${shown(example, folder)} my-sluice.yaml
  ${program} run --config my-sluice.yaml
`
}

/** States which quickstart already runs here, and how to inspect it. */
export function runningText(pid: number, configPath: string, { folder, program }: ScreenReader): string {
  return `sluice: a quickstart already runs in this folder: process ${pid}
  look at it:  ${program} status --config ${shown(configPath, folder)}
  end it:      Ctrl-C in its terminal, or kill ${pid}
`
}
