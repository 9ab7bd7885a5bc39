import split2 from 'split2'
import { textOf } from '../admin/socket.js'
import { printable, printableJson, printableText } from '../lib/printable.js'
import { type Io, UsageError } from '../terminal/command-line.js'
import { conditionOf } from '../terminal/condition-flag.js'
import { EXIT } from '../terminal/dispatch.js'
import { ask, type DaemonOptions, findSocket } from './daemon-socket.js'

export interface TapOptions extends DaemonOptions {
  readonly component: string
  readonly limit: string | undefined
  readonly where: string | undefined
  readonly discarded: boolean
}

/** Events as they leave a component, until there are enough of them or the call is interrupted. */
export async function tap(options: TapOptions, io: Io): Promise<number> {
  const { component, limit, where, discarded } = options
  if (limit !== undefined && !/^[1-9]\d{0,14}$/.test(limit))
    throw new UsageError('--limit is a whole number, at least 1', 'tap')
  const query = new URLSearchParams({ component: discarded ? `${component}.discarded` : component })
  if (limit !== undefined) query.set('limit', limit)
  if (where !== undefined) query.set('where', conditionOf(where, 'where', 'tap', io))
  const response = await ask(findSocket(options, io.env), `/tap?${query}`)
  if (response.statusCode !== 200) {
    io.stderr.write(`sluice tap: ${printableText((await textOf(response)).trim())}\n`)
    return response.statusCode === 400 ? EXIT.usage : EXIT.failed
  }
  try {
    for await (const line of response.pipe(split2())) {
      const text = String(line)
      const isRemark = text.startsWith('#')
      const to = isRemark ? io.stderr : io.stdout
      if (!to.write(`${isRemark ? printable(text) : printableJson(text)}\n`))
        await new Promise(resolve => to.once('drain', resolve))
    }
  } catch (error) {
    throw new Error('the daemon has ended, or took up another configuration', { cause: error })
  }
  return EXIT.done
}
