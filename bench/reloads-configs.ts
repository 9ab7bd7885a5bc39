/** Configurations for `npm run reloads`: in each of them every event reaches exactly one output. */

export type Random = () => number

export interface Places {
  readonly folder: string
  /** Of the receiver. */
  readonly url: string
  readonly tcpPort: number
  /** A port that is taken. */
  readonly takenPort: number
}

/** Where events of the pipeline go that are neither a file nor the receiver's: nowhere. */
export const OUTPUTS = ['a.out', 'b.out', 'c.out'] as const

/** The same numbers for the same seed. */
export function seeded(seed: number): Random {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let x = Math.imul(state ^ (state >>> 15), state | 1)
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61)
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32
  }
}

export function pick<T>(random: Random, values: readonly T[]): T {
  return values[Math.floor(random() * values.length)]!
}

/** The plainest one: what is left is compared while it runs. */
export function plainConfig(places: Places): string {
  return sections(places, 'text', {}, { out: fileTo('inputs: [tailed, piped, sent]', places, 'a.out') })
}

export function randomConfig(random: Random, places: Places): string {
  const ids = (name: string) => pick(random, [name, `${name}_b`, `${name}_c`])
  const processors: Record<string, string> = {}
  const destinations: Record<string, string> = {}
  const sources = ['tailed', 'piped', 'sent']
  let inputs = sources
  if (random() < 0.5) {
    const id = ids('all')
    processors[id] = `{ type: filter, inputs: [${inputs.join(', ')}], condition: "if (.message contains '#')" }`
    inputs = [id, `${id}.discarded`]
  }
  if (random() < 0.7) {
    const id = ids('limit')
    const limit = pick(random, [1, 1000, 100_000, 1_000_000_000])
    const mode = pick(random, ['fixed', 'aligned', 'sliding'])
    processors[id] =
      `{ type: throttle, inputs: [${inputs.join(', ')}], limit: ${limit}, window: 1s, window_mode: ${mode} }`
    inputs = [id, `${id}.discarded`]
  }
  // Two outputs get a part each, or one gets all.
  const parts = inputs.length === 2 && random() < 0.5 ? inputs.map(input => [input]) : [inputs]
  for (const [i, part] of parts.entries()) {
    const from = `inputs: [${part.join(', ')}]`
    const more = `${batch(random)}${buffer(random)}`
    destinations[`${ids('out')}${i}`] =
      random() < 0.6
        ? fileTo(from, places, pick(random, OUTPUTS), more)
        : `{ type: http, ${from}, url: "${places.url}", encoding: raw, max_in_flight: ${pick(random, [1, 4])}, compression: ${pick(random, ['none', 'gzip'])}${more} }`
  }
  if (random() < 0.3) {
    processors.aside = `{ type: throttle, inputs: [${pick(random, sources)}], limit: 5, window: 1m }`
    destinations.nowhere = '{ type: blackhole, inputs: [aside, aside.discarded] }'
  }
  return sections(places, random() < 0.2 ? 'json' : 'text', processors, destinations, random() < 0.2)
}

/** Something is wrong with it, each time something else. */
export function wrongConfig(random: Random, places: Places): string {
  const good = randomConfig(random, places)
  return pick(random, [
    () => good.replace('sources:', 'sources: {'),
    () => good.replace('type: file', 'type: fiel'),
    () => good.replace(/inputs: \[\w+/, 'inputs: [nobody'),
    () => `${good}data_dir: ${JSON.stringify(`${places.folder}/elsewhere`)}\n`,
    () => `${good}metrics: { listen: "127.0.0.1:${places.takenPort}" }\n`,
    () => `${good}nonsense: true\n`,
    () => '',
    () => `${good}  unreachable: { type: http, inputs: [piped], url: "${places.url}", tls: { ca_file: 7 } }\n`,
  ])()
}

function fileTo(from: string, { folder }: Places, name: string, more = ''): string {
  return `{ type: file, ${from}, path: ${JSON.stringify(`${folder}/${name}`)}, encoding: raw${more} }`
}

function batch(random: Random): string {
  if (random() < 0.5) return ''
  const [events, bytes] = [pick(random, [500, 5000, 50_000]), pick(random, ['64KB', '1MB', '4MB'])]
  return `, batch: { max_events: ${events}, max_bytes: ${bytes}, max_wait: ${pick(random, ['1ms', '20ms', '200ms'])} }`
}

function buffer(random: Random): string {
  return random() < 0.3 ? ', buffer: { type: disk, max_bytes: 500MB }' : ''
}

function sections(
  { folder, tcpPort }: Places,
  decode: string,
  processors: Record<string, string>,
  destinations: Record<string, string>,
  quiet = false,
): string {
  const lines = (all: Record<string, string>) => Object.entries(all).map(([id, options]) => `  ${id}: ${options}\n`)
  const folderOf = (name: string) => JSON.stringify(`${folder}/${name}/*.log`)
  const more = quiet ? `  quiet: { type: file, include: [${folderOf('quiet')}] }\n` : ''
  if (quiet) destinations.of_quiet = '{ type: blackhole, inputs: [quiet] }'
  return `sources:
  tailed: { type: file, include: [${folderOf('logs')}], decode: ${decode} }
  piped: { type: stdin }
  sent: { type: tcp, listen: "127.0.0.1:${tcpPort}" }
${more}${Object.keys(processors).length > 0 ? `processors:\n${lines(processors).join('')}` : ''}destinations:
${lines(destinations).join('')}`
}
