/** Parses the Prometheus text of a daemon. */

export interface Series {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

// A label may have any character, also those that end a line elsewhere.
const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/s
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)",?/gs
const ESCAPES: Readonly<Record<string, string>> = { '\\n': '\n', '\\"': '"', '\\\\': '\\' }

export class Scrape {
  readonly #series = new Map<string, Series[]>()

  constructor(text: string) {
    for (const line of text.split('\n')) {
      const [, name, labels = '', value] = LINE.exec(line) ?? []
      if (name === undefined) continue
      const found = [...labels.matchAll(LABEL)].map(
        ([, label, quoted]) => [label!, quoted!.replace(/\\[n"\\]/g, one => ESCAPES[one]!)] as const,
      )
      const series = this.#series.get(name)
      const one = { labels: Object.fromEntries(found), value: Number(value) }
      if (series) series.push(one)
      else this.#series.set(name, [one])
    }
  }

  /** All series of a metric that have these labels. */
  all(name: string, labels: Readonly<Record<string, string>> = {}): readonly Series[] {
    const series = this.#series.get(name) ?? []
    return series.filter(one => Object.entries(labels).every(([label, value]) => one.labels[label] === value))
  }

  /** The sum of the series; 0 if there are none. */
  sum(name: string, labels: Readonly<Record<string, string>> = {}): number {
    return this.all(name, labels).reduce((sum, { value }) => sum + value, 0)
  }

  /** The sums of the series by the value of a label. */
  by(label: string, name: string, labels: Readonly<Record<string, string>> = {}): Map<string, number> {
    const sums = new Map<string, number>()
    for (const { labels: own, value } of this.all(name, labels))
      sums.set(own[label] ?? '', (sums.get(own[label] ?? '') ?? 0) + value)
    return sums
  }
}
