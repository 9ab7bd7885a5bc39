import { parse, stringify } from 'yaml'
import { components } from '../../../src/components/list.js'
import { codecs } from '../../../src/core/codecs/list.js'
import { makeScenario } from '../../chaos/generate.js'
import { lineText } from '../../chaos/lines.js'
import { JsonLines } from '../../support/json-lines.js'
import { accessLine, criLine, dockerLine, klogLine } from '../../support/log-lines.js'
import { Seeded } from '../../support/seeded.js'
import type { Case, Life } from './play.js'

/**
 * Random pipelines and inputs from a seed. The options of sources and destinations come from chaos, the processors from the
 * examples of the reference. The output does not depend on timing, as it does in chaos: no file is removed before it is read.
 */

/** The output of the other processors depends on when the process was killed, because they keep state in memory. */
const STATELESS = ['filter', 'parse', 'redact', 'edit', 'route', 'explode', 'flatten']
/** Processors with the output `discarded`. */
const DISCARDS = ['throttle', 'filter', 'sample', 'dedupe']
const ENCODINGS = ['json', 'json', 'raw', 'logfmt']
/** Encodings without lines or names: their requests cannot be compared line by line, nor measured times normalised. */
const OTHER_ENCODINGS = ['msgpack', 'gelf', 'csv', 'ndjson']

interface Step {
  readonly type: string
  readonly yaml: string
}

const STEPS: Step[] = components
  .filter(({ kind }) => kind === 'processor')
  .flatMap(({ type, examples }) => examples.map(({ yaml }) => ({ type, yaml })))
  // The others read files of their own.
  .filter(({ yaml }) => !/^(table|file|database|limits_file|environment):/m.test(yaml))

export interface World extends Case {
  readonly isKilled: boolean
}

export function makeWorld(seed: number, corpus: readonly string[]): World {
  const random = new Seeded(seed * 2_654_435_761)
  const { setup } = makeScenario(seed, 0)
  const kind = random.pick(['stdin', 'file', 'killed', 'killed'] as const)
  const isKilled = kind === 'killed'
  const decode = random.chance(0.5) ? 'json' : random.chance(0.5) ? 'text' : codecOptions(random)
  const steps = Array.from({ length: random.below(4) }, () =>
    random.pick(isKilled ? STEPS.filter(({ type }) => STATELESS.includes(type)) : STEPS),
  )
  const toHttp = random.chance(0.5)
  const smallBatch = random.pick([1, 3, 10])
  const encoding = random.pick(
    isKilled || toHttp || steps.some(({ type }) => type === 'aggregate')
      ? ENCODINGS
      : [...ENCODINGS, ...OTHER_ENCODINGS],
  )
  const source = {
    decode,
    max_line_bytes: setup.lineBytes,
    ...(random.chance(0.3) && decode === 'text' && !isKilled ? { multiline: { preset: ['java', 'python'] } } : {}),
  }
  // The older commit may not have `auto`.
  const inFlight = setup.inFlight === 'auto' ? 4 : setup.inFlight
  const config = (receiver: string) => {
    let input = 'in'
    const outputs: string[] = []
    const processors = steps.map(({ type, yaml }, i): [string, object] => {
      const options = parse(yaml) as Record<string, unknown>
      const component = { type, inputs: [input], ...options, ...(type === 'parse' ? { on_error: 'pass' } : {}) }
      input = `p${i}`
      if (DISCARDS.includes(type)) outputs.push(`${input}.discarded`)
      if (type === 'route') {
        outputs.push(...Object.keys(options.routes as object).map(name => `p${i}.${name}`))
        input = `p${i}.else`
      }
      return [`p${i}`, component]
    })
    const delivery = {
      encoding,
      batch: { max_events: isKilled ? smallBatch : setup.batchEvents, max_wait: '5ms' },
      ...(setup.buffer === 'disk' ? { buffer: { type: 'disk', max_bytes: '1MiB' } } : {}),
    }
    const http = { type: 'http', max_in_flight: inFlight, compression: setup.compression }
    const destination = (id: string, inputs: string[]) =>
      toHttp
        ? { ...http, ...delivery, inputs, url: `${receiver}/${id}` }
        : { type: 'file', ...delivery, inputs, path: `out/${id}.log` }
    const sides = outputs.map((output, i): [string, object] => [`side${i}`, destination(`side${i}`, [output])])
    const files = { type: 'file', include: ['in/*.log*'], follow: false }
    const config = {
      data_dir: 'state',
      metrics: false,
      sources: { in: { ...(kind === 'stdin' ? { type: 'stdin' } : files), ...source } },
      processors: Object.fromEntries(processors),
      destinations: { out: destination('out', [input]), ...Object.fromEntries(sides) },
    }
    return stringify(config, { aliasDuplicateObjects: false })
  }

  const end = setup.crlf ? '\r\n' : '\n'
  let written = 0
  const lines = (count: number, isLast = true) => {
    const made = Array.from({ length: count }, () =>
      random.chance(0.5)
        ? Buffer.from(lineText(`f${seed}.${written++}`, random.pick([8, 60, 60, 900]), setup), 'latin1')
        : random.chance(0.5)
          ? Buffer.from(random.pick(corpus))
          : strangeLine(random),
    )
    const ends = made.map((_, i) => (isLast && i === count - 1 && random.chance(0.2) ? '' : end))
    return Buffer.concat(made.flatMap((line, i) => [line, Buffer.from(ends[i]!)]))
  }
  const lives = (): Life[] => {
    if (kind === 'stdin') return [{ stdin: lines(1 + random.below(200)) }]
    if (kind === 'file') return [{ appended: { 'in/a.log': lines(1 + random.below(200)) } }]
    const kills = 1 + random.below(3)
    return Array.from({ length: kills + 1 }, (_, i) => ({
      appended: { 'in/a.log': lines(random.pick([20, 200, 1000]), false), 'in/b.log': lines(random.below(50), false) },
      ...(i > 0 && random.chance(0.5) ? { renamed: [['in/a.log', `in/a.log.${i}`]] as const } : {}),
      ...(i < kills && { kill: toHttp ? killAt(random, inFlight) : { ms: 150 + random.below(500) } }),
    }))
  }
  return {
    name: `world ${seed}`,
    config,
    files: {},
    lives: lives(),
    isKilled,
    isUnordered: toHttp && inFlight > 1,
  }
}

/** About half of the kills come after a checkpoint, which is written every second. */
function killAt(random: Seeded, inFlight: number) {
  const request = 2 + random.below(20)
  return { request, answerMs: Math.min(500, (random.below(4000) * inFlight) / request) }
}

function codecOptions(random: Seeded): unknown {
  const lineCodecs = codecs.filter(({ name }) => !['msgpack', 'protobuf', 'raw', 'ndjson'].includes(name))
  const { name, examples } = random.pick(lineCodecs)
  return { codec: name, ...(parse(random.pick(examples).yaml) as object | null) }
}

function strangeLine(random: Seeded): Buffer {
  const jsonLine = () => new JsonLines(random).line()
  const line = random.pick([accessLine, criLine, dockerLine, jsonLine, klogLine])(random)
  return Buffer.from(line.toString('latin1').replaceAll(/[\r\n]/g, ' '), 'latin1')
}
