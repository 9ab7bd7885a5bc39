import type { Seeded } from '../test/support/seeded.js'

/** Configurations for `npm run bench reloads`: in each of them every event reaches exactly one output. */

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

/** The plainest one: what is left is compared while it runs. */
export function plainConfig(places: Places): string {
  return sections(places, 'text', {}, { out: fileTo('inputs: [tailed, piped, sent]', places, 'a.out') })
}

export function randomConfig(random: Seeded, places: Places): string {
  const ids = (name: string) => random.pick([name, `${name}_b`, `${name}_c`])
  const processors: Record<string, string> = {}
  const destinations: Record<string, string> = {}
  const sources = ['tailed', 'piped', 'sent']
  let inputs = sources
  if (random.chance(0.5)) {
    const id = ids('all')
    processors[id] = `{ type: filter, inputs: [${inputs.join(', ')}], condition: "if (.message contains '#')" }`
    inputs = [id, `${id}.discarded`]
  }
  if (random.chance(0.7)) {
    const id = ids('limit')
    const limit = random.pick([1, 1000, 100_000, 1_000_000_000])
    const mode = random.pick(['fixed', 'aligned', 'sliding'])
    processors[id] =
      `{ type: throttle, inputs: [${inputs.join(', ')}], limit: ${limit}, window: 1s, window_mode: ${mode} }`
    inputs = [id, `${id}.discarded`]
  }
  // Two outputs get a part each, or one gets all.
  const parts = inputs.length === 2 && random.chance(0.5) ? inputs.map(input => [input]) : [inputs]
  const free: string[] = [...OUTPUTS]
  for (const [i, part] of parts.entries()) {
    const from = `inputs: [${part.join(', ')}]`
    const more = `${batch(random)}${buffer(random)}`
    destinations[`${ids('out')}${i}`] = random.chance(0.6)
      ? fileTo(from, places, takeOne(free, random), more)
      : `{ type: http, ${from}, url: "${places.url}", encoding: raw, max_in_flight: ${random.pick([1, 4])}, compression: ${random.pick(['none', 'gzip'])}${more} }`
  }
  if (random.chance(0.3)) {
    processors.aside = `{ type: throttle, inputs: [${random.pick(sources)}], limit: 5, window: 1m }`
    destinations.nowhere = '{ type: blackhole, inputs: [aside, aside.discarded] }'
  }
  return sections(places, random.chance(0.2) ? 'json' : 'text', processors, destinations, random.chance(0.2))
}

/** Something is wrong with it, each time something else. */
export function wrongConfig(random: Seeded, places: Places): string {
  const good = randomConfig(random, places)
  return random.pick([
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

/** Each file is written by one destination only. */
function takeOne(names: string[], random: Seeded): string {
  const name = random.pick(names)
  names.splice(names.indexOf(name), 1)
  return name
}

function fileTo(from: string, { folder }: Places, name: string, more = ''): string {
  return `{ type: file, ${from}, path: ${JSON.stringify(`${folder}/${name}`)}, encoding: raw${more} }`
}

function batch(random: Seeded): string {
  if (random.chance(0.5)) return ''
  const [events, bytes] = [random.pick([500, 5000, 50_000]), random.pick(['64KB', '1MB', '4MB'])]
  return `, batch: { max_events: ${events}, max_bytes: ${bytes}, max_wait: ${random.pick(['1ms', '20ms', '200ms'])} }`
}

function buffer(random: Seeded): string {
  return random.chance(0.3) ? ', buffer: { type: disk, max_bytes: 500MB }' : ''
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
