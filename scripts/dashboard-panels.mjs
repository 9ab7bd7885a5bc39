// How the panels of the dashboard are described, and the labels and queries that many of them share.

/** Labels of what belongs to a process. */
export const S = 'job=~"$job", instance=~"$instance"'
export const C = `${S}, component_id=~"$component"`
export const BY = 'by (instance, component_id)'
export const EACH = '{{instance}} {{component_id}}'

export const rate = (name, labels = C) => `rate(${name}{${labels}}[$__rate_interval])`
export const perComponent = (name, more = '') => [`sum ${BY} (${rate(name, C + more)})`, EACH]
export const quantile = (q, name) => [
  `histogram_quantile(${q}, sum by (le, component_id) (${rate(`${name}_bucket`)}))`,
  `p${q * 100} {{component_id}}`,
]
export const kind = name => `, component_kind="${name}"`

/** Good below the first bound, a warning below the second, bad from there. */
export const bounds = (warning, bad) => [
  { color: 'green', value: null },
  ...(warning === undefined ? [] : [{ color: 'orange', value: warning }]),
  { color: 'red', value: bad },
]

// [title, description, unit, queries, options]: a query is [PromQL, legend].
export const stat = (title, description, unit, query, thresholds) => ({
  type: 'stat',
  w: 4,
  h: 4,
  title,
  description,
  unit,
  queries: [[query, '']],
  thresholds,
})
export const lines = (title, description, unit, queries, more = {}) => ({
  type: 'timeseries',
  w: 8,
  h: 8,
  title,
  description,
  unit,
  queries,
  ...more,
})
export const table = (title, description, query, hidden) => ({
  type: 'table',
  w: 12,
  h: 7,
  title,
  description,
  unit: 'short',
  queries: [[query, '']],
  hidden,
})
