// Writes config/grafana/sluice.json, a dashboard for Grafana 9.4 and newer, from the table in dashboard-rows.mjs; with --print, to standard
// output. Change the table, run `node scripts/dashboard.mjs`, and commit both.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { S } from './dashboard-panels.mjs'
import { ROWS } from './dashboard-rows.mjs'

const OUT = join(dirname(dirname(fileURLToPath(import.meta.url))), 'config/grafana/sluice.json')
const WIDTH = 24
const DATASOURCE = { type: 'prometheus', uid: '${datasource}' }

function target([expr, legendFormat], i, { type, exemplars = false }) {
  const instant = type === 'stat' || type === 'table'
  return {
    refId: String.fromCharCode(65 + i),
    datasource: DATASOURCE,
    expr,
    legendFormat,
    editorMode: 'code',
    instant,
    range: !instant,
    ...(exemplars && { exemplar: true }),
    ...(type === 'table' && { format: 'table' }),
    ...(type === 'heatmap' && { format: 'heatmap' }),
  }
}

function fieldConfig({ type, unit, thresholds, stacked, hidden = [] }) {
  const custom =
    type === 'timeseries'
      ? {
          custom: {
            fillOpacity: stacked ? 30 : 10,
            lineWidth: 1,
            showPoints: 'never',
            stacking: { mode: stacked ? 'normal' : 'none', group: 'A' },
            ...(thresholds && { thresholdsStyle: { mode: 'line' } }),
          },
        }
      : {}
  return {
    defaults: {
      unit: type === 'table' ? 'dateTimeFromNow' : unit,
      ...(type === 'timeseries' && { min: 0 }),
      ...(thresholds && { thresholds: { mode: 'absolute', steps: thresholds } }),
      ...custom,
    },
    overrides: hidden.map(name => ({
      matcher: { id: 'byName', options: name },
      properties: [{ id: 'custom.hidden', value: true }],
    })),
  }
}

const OPTIONS = {
  stat: {
    colorMode: 'background',
    graphMode: 'none',
    justifyMode: 'auto',
    reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
    textMode: 'value',
  },
  timeseries: {
    legend: { displayMode: 'list', placement: 'bottom', showLegend: true },
    tooltip: { mode: 'multi', sort: 'desc' },
  },
  table: { showHeader: true, footer: { show: false } },
  heatmap: {
    calculate: false,
    color: { mode: 'scheme', scheme: 'Blues', steps: 32 },
    yAxis: { unit: 's' },
    tooltip: { show: true, yHistogram: false },
    legend: { show: false },
  },
}

function panels() {
  const all = []
  let id = 0
  let y = 0
  for (const [title, row] of Object.entries(ROWS)) {
    all.push({ id: ++id, type: 'row', title, collapsed: false, gridPos: { x: 0, y: y++, w: WIDTH, h: 1 }, panels: [] })
    let x = 0
    let height = 0
    for (const panel of row) {
      if (x + panel.w > WIDTH) {
        x = 0
        y += height
        height = 0
      }
      all.push({
        id: ++id,
        type: panel.type,
        title: panel.title,
        description: panel.description,
        datasource: DATASOURCE,
        gridPos: { x, y, w: panel.w, h: panel.h },
        targets: panel.queries.map((query, i) => target(query, i, panel)),
        fieldConfig: fieldConfig(panel),
        options: OPTIONS[panel.type],
      })
      x += panel.w
      height = Math.max(height, panel.h)
    }
    y += height
  }
  return all
}

function variable(name, label, query) {
  return {
    name,
    label,
    type: 'query',
    datasource: DATASOURCE,
    definition: query,
    query: { query, refId: name },
    refresh: 2,
    sort: 1,
    multi: true,
    includeAll: true,
    allValue: '.*',
    current: { selected: true, text: ['All'], value: ['$__all'] },
  }
}

const dashboard = {
  title: 'Sluice',
  uid: 'sluice',
  description:
    'What Sluice reads, throttles and delivers, and its problems. Alerts need the rules in config/prometheus.',
  tags: ['sluice', 'logs'],
  schemaVersion: 37,
  version: 1,
  editable: true,
  graphTooltip: 1,
  refresh: '30s',
  time: { from: 'now-3h', to: 'now' },
  timezone: 'browser',
  templating: {
    list: [
      { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus', current: {}, refresh: 1 },
      variable('job', 'Job', 'label_values(sluice_build_info, job)'),
      variable('instance', 'Instance', 'label_values(sluice_build_info{job=~"$job"}, instance)'),
      variable('component', 'Component', `label_values(sluice_component_received_events_total{${S}}, component_id)`),
    ],
  },
  annotations: {
    list: [
      {
        name: 'Reloads',
        datasource: DATASOURCE,
        enable: true,
        expr: `changes(sluice_config_last_reload_success_timestamp_seconds{${S}}[$__rate_interval]) > 0`,
        titleFormat: 'configuration reloaded on {{instance}}',
        iconColor: 'blue',
      },
    ],
  },
  panels: panels(),
}

const text = `${JSON.stringify(dashboard, null, 2)}\n`
if (process.argv.includes('--print')) process.stdout.write(text)
else {
  mkdirSync(dirname(OUT), { recursive: true })
  writeFileSync(OUT, text)
}
