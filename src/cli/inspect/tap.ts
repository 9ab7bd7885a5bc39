import { existsSync } from 'node:fs'
import { pipeline } from 'node:stream'
import split2 from 'split2'
import { ConfigError } from '../../core/errors.js'
import { textOf } from '../../daemon/admin/ask-socket.js'
import { ask, type DaemonOptions, findSocket, selected } from '../../daemon/admin/daemon-socket.js'
import { statusAt, terminalOf } from '../../daemon/admin/daemon-view.js'
import { type Io, wholeNumber } from '../../daemon/process/command-line.js'
import { EXIT } from '../../daemon/process/dispatch.js'
import type { Named } from '../../daemon/status/problems.js'
import { printable, printableJson, printableText } from '../../lib/printable.js'
import { type Daemon, findDaemon } from './find-daemon.js'
import { otherLines } from './screen-parts.js'

export interface TapOptions extends DaemonOptions {
  /** If undefined, the command lists the components that can be tapped. */
  readonly component: string | undefined
  readonly limit: string | undefined
  readonly where: string | undefined
  readonly discarded: boolean
}

/** Prints events as they leave a component, until the limit is reached or the command is interrupted. */
export async function tap(options: TapOptions, io: Io): Promise<number> {
  const { component, limit, where, discarded } = options
  if (component === undefined) return listComponents(options, io)
  if (options.config === undefined && isFile(component)) return listComponents({ ...options, config: component }, io)
  const query = new URLSearchParams({ component: discarded ? `${component}.discarded` : component })
  if (limit !== undefined) query.set('limit', String(wholeNumber(limit, 'limit', 'tap')))
  if (where !== undefined) {
    const { conditionOf } = await import('../../daemon/process/condition-flag.js')
    conditionOf(where, 'where', 'tap')
    query.set('where', where)
  }
  const { socket, others } = await foundDaemon(options, io)
  const response = await ask(socket, `/tap?${query}`)
  if (response.statusCode !== 200) {
    io.stderr.write(`sluice tap: ${printableText((await textOf(response)).trim())}\n`)
    for (const line of otherLines(others, terminalOf(io).width)) io.stderr.write(`${line}\n`)
    return response.statusCode === 400 ? EXIT.usage : EXIT.failed
  }
  const lines = split2()
  // If the response breaks off, `lines` ends with an error. With `pipe`, it would never end.
  pipeline(response, lines, () => {})
  try {
    for await (const line of lines) {
      const text = String(line)
      const isRemark = text.startsWith('#')
      const to = isRemark ? io.stderr : io.stdout
      if (!to.write(`${isRemark ? printable(text) : printableJson(text)}\n`))
        await new Promise(resolve => to.once('drain', resolve))
    }
  } catch (error) {
    throw new Error('the daemon has ended, or runs another configuration', { cause: error })
  }
  return EXIT.done
}

/** Unlike a file name, an id contains no slash, and contains a dot only before a side output. */
function isFile(component: string): boolean {
  return /\/|\.ya?ml$/.test(component) || existsSync(component)
}

/** Lists the components that can be tapped, from the configuration or from the daemon. */
async function listComponents(options: DaemonOptions, io: Io): Promise<number> {
  const { config, socket } = selected(options, io.env)
  const all =
    config === undefined ? await running(await findSocket({ config, socket }, io.env)) : await configured(config, io)
  const width = Math.max(...all.map(({ id }) => id.length))
  const rows = all.map(({ id, kind, type }) => `  ${id.padEnd(width)}  ${kind} (${type})`)
  io.stderr.write(printableText(`sluice tap: COMPONENT is missing; it is one of these:\n${rows.join('\n')}\n`))
  return EXIT.usage
}

async function running(socket: string): Promise<readonly Named[]> {
  const { components } = await statusAt(socket)
  if (components.length === 0) throw new Error('no pipeline runs now, see: sluice status')
  return components
}

/** The components of a configuration. If it is invalid now: the components of the daemon that was started with it. */
async function configured(path: string, io: Io): Promise<readonly Named[]> {
  const [{ loadDaemonConfig }, { componentsOf }] = await Promise.all([
    import('../../daemon/managed/local-part.js'),
    import('../../engine/config/inputs.js'),
  ])
  try {
    return componentsOf(await loadDaemonConfig(path, io.env))
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const { socket } = await findDaemon({ config: path, socket: undefined }, io.env)
    const components = await running(socket).catch(() => {
      throw error
    })
    io.stderr.write(`${printableText(error.message)}\n`)
    return components
  }
}

/** Finds the daemon, and prints the problems in the configuration that was used to find it. */
async function foundDaemon(options: DaemonOptions, io: Io): Promise<Daemon> {
  const daemon = await findDaemon(options, io.env)
  for (const { what } of daemon.mistakes) io.stderr.write(`sluice tap: ${printable(what)}\n`)
  return daemon
}
