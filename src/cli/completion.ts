import { type Command, type Io, UsageError } from '../daemon/process/command-line.js'
import { EXIT } from '../daemon/process/dispatch.js'
import { systemClock } from '../lib/time.js'
import { bashCompletion } from './completion/bash.js'
import { fishCompletion } from './completion/fish.js'
import { type CommandLineModel, commandLineModel } from './completion/model.js'
import { zshCompletion } from './completion/zsh.js'
import { type DaemonOptions, findSocket } from './inspect/daemon-socket.js'
import { viewDaemon } from './inspect/daemon-view.js'
import { loadDaemonConfig } from './screen/local-part.js'

const SHELLS: Readonly<Record<string, (model: CommandLineModel) => string>> = {
  bash: bashCompletion,
  zsh: zshCompletion,
  fish: fishCompletion,
}

/** The possible arguments of `sluice completion`. */
export const COMPLETIONS = [...Object.keys(SHELLS), 'ids'] as const

/** Filters the components that `sluice completion ids` lists, by the value of its option. */
const KINDS: Readonly<Record<string, (box: { kind: string; type: string }) => boolean>> = {
  component: () => true,
  source: ({ kind }) => kind === 'source',
  throttle: ({ type }) => type === 'throttle',
  destination: ({ kind }) => kind === 'destination',
}

export interface CompletionOptions extends DaemonOptions {
  readonly of: string | undefined
}

/** Writes the script for a shell, or the ids that these scripts request, one per line. */
export async function completion(
  what: string,
  { of = 'component', ...options }: CompletionOptions,
  commands: readonly Command[],
  io: Pick<Io, 'stdout' | 'env'>,
): Promise<number> {
  if (Object.hasOwn(SHELLS, what)) {
    io.stdout.write(SHELLS[what]!(commandLineModel(commands)))
    return EXIT.done
  }
  const wanted = Object.hasOwn(KINDS, of) ? KINDS[of] : undefined
  if (what !== 'ids') throw new UsageError(`it is one of ${COMPLETIONS.join(', ')}`, 'completion')
  if (!wanted) throw new UsageError(`--of is one of ${Object.keys(KINDS).join(', ')}`, 'completion')
  const boxes = await boxesOf(options, io.env)
  const ids = [...new Set(boxes.filter(wanted).map(({ id }) => id))]
  io.stdout.write(ids.map(id => `${id}\n`).join(''))
  return EXIT.done
}

interface Box {
  readonly id: string
  readonly kind: string
  readonly type: string
}

async function boxesOf(options: DaemonOptions, env: Io['env']): Promise<readonly Box[]> {
  if (options.config === undefined) return (await viewDaemon(findSocket(options, env), systemClock.now())).components
  const { sources, processors, destinations } = await loadDaemonConfig(options.config, env)
  const boxes = [...sources, ...processors, ...destinations]
  // Side outputs with a reader can be tapped by name.
  const sides = boxes.flatMap(({ inputs }) => inputs.filter(input => input.includes('.')))
  return [...boxes, ...sides.map(id => ({ id, kind: 'output', type: '' }))]
}
