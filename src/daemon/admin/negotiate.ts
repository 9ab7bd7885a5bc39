import type { Format } from '../../engine/run/measure/metrics.js'

/** The format a scraper asks for in `Accept`: OpenMetrics only if it is named and at least as preferred as text. */
export function formatFor(accept: string | undefined): Format {
  let open = 0
  let text = 0
  for (const { name, parameters, weight } of choices(accept ?? '')) {
    if (name === 'application/openmetrics-text') {
      if ((parameters.get('version') ?? '1.0.0') === '1.0.0') open = Math.max(open, weight)
    } else if (name === 'text/plain') {
      if ((parameters.get('version') ?? '0.0.4') === '0.0.4') text = Math.max(text, weight)
    }
  }
  return open > 0 && open >= text ? 'openmetrics' : 'text'
}

/** Whether the response may be compressed with gzip. */
export function takesGzip(acceptEncoding: string | undefined): boolean {
  const all = choices(acceptEncoding ?? '')
  const own = all.find(({ name }) => name === 'gzip' || name === 'x-gzip') ?? all.find(({ name }) => name === '*')
  return (own?.weight ?? 0) > 0
}

interface Choice {
  readonly name: string
  readonly parameters: ReadonlyMap<string, string>
  readonly weight: number
}

function choices(header: string): Choice[] {
  return header.split(',').map(choice => {
    const [name = '', ...rest] = choice.split(';').map(part => part.trim().toLowerCase())
    const parameters = new Map(
      rest.map(part => {
        const [key = '', value = ''] = part.split('=').map(half => half.trim())
        return [key, value.replace(/^"(.*)"$/, '$1')]
      }),
    )
    const q = parameters.get('q')
    const weight = q === undefined ? 1 : Number(q)
    return { name, parameters, weight: weight >= 0 && weight <= 1 ? weight : 0 }
  })
}
