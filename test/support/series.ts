type Labels = Readonly<Record<string, string>>

export interface Sample {
  readonly labels: Labels
  readonly value: number
}

export type Samples = Readonly<Record<string, readonly Sample[]>>

export class Series {
  readonly #samples: Samples
  /** By metric, then by component, because most reads need only one component among many. */
  readonly #ofComponents = new Map<string, Map<string | undefined, Sample[]>>()

  constructor(samples: Samples) {
    this.#samples = samples
  }

  all(name: string, labels: Labels = {}): readonly Sample[] {
    const { component_id } = labels
    const samples = component_id === undefined ? this.#samples[name] : this.#of(name).get(component_id)
    return (samples ?? []).filter(one => Object.entries(labels).every(([label, value]) => one.labels[label] === value))
  }

  #of(name: string): ReadonlyMap<string | undefined, readonly Sample[]> {
    let found = this.#ofComponents.get(name)
    if (!found) {
      this.#ofComponents.set(name, (found = new Map()))
      for (const sample of this.#samples[name] ?? []) {
        const { component_id } = sample.labels
        const own = found.get(component_id)
        if (own) own.push(sample)
        else found.set(component_id, [sample])
      }
    }
    return found
  }

  /** All metrics with matching names. Instead of the name, yields the text that the pattern's first group matches. */
  *matching(pattern: RegExp): Generator<[string, readonly Sample[]]> {
    for (const [name, samples] of Object.entries(this.#samples)) {
      const [, part] = pattern.exec(name) ?? []
      if (part !== undefined) yield [part, samples]
    }
  }

  /** The sum of the series; 0 if there are none. */
  sum(name: string, labels: Labels = {}): number {
    return this.all(name, labels).reduce((sum, { value }) => sum + value, 0)
  }

  /** The sums of the metric's series, by the value of `label`. */
  by(label: string, name: string): Map<string, number> {
    const sums = new Map<string, number>()
    for (const { labels: own, value } of this.all(name))
      sums.set(own[label] ?? '', (sums.get(own[label] ?? '') ?? 0) + value)
    return sums
  }
}

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
