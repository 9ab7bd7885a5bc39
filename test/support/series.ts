import { type Sample, type Samples, Series } from '../../src/daemon/status/series.js'

// A label may have any character, also those that end a line elsewhere.
const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/s
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)",?/gs
const ESCAPES: Readonly<Record<string, string>> = { '\\n': '\n', '\\"': '"', '\\\\': '\\' }

/** What the Prometheus text of a daemon says. */
export const seriesIn = (text: string) => new Series(samplesIn(text))

export function samplesIn(text: string): Samples {
  const all: Record<string, Sample[]> = {}
  for (const line of text.split('\n')) {
    const [, name, labels = '', value] = LINE.exec(line) ?? []
    if (name === undefined) continue
    const found = [...labels.matchAll(LABEL)].map(
      ([, label, quoted]) => [label!, quoted!.replace(/\\[n"\\]/g, one => ESCAPES[one]!)] as const,
    )
    all[name] ??= []
    all[name].push({ labels: Object.fromEntries(found), value: Number(value) })
  }
  return all
}
