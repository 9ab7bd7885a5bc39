/** Colours of the report, for light and dark. Text has a contrast of at least 4.5 with its background, shapes of 3. */

interface Palette {
  readonly back: string
  readonly panel: string
  readonly text: string
  readonly faint: string
  readonly line: string
  readonly border: string
  readonly link: string
  readonly passed: string
  readonly discarded: string
  readonly excluded: string
  /** Of keys and curves. Neighbours differ in lightness, too. */
  readonly series: readonly [string, string, string, string, string, string, string]
  readonly rest: string
}

export const LIGHT: Palette = {
  back: '#ffffff',
  panel: '#f5f7f9',
  text: '#1b1f24',
  faint: '#57606a',
  line: '#d8dee4',
  border: '#7d8590',
  link: '#0b57b0',
  passed: '#2b6cb8',
  discarded: '#c2410c',
  excluded: '#7d8590',
  series: ['#0b5ea8', '#d4600a', '#00705a', '#c2408f', '#2f8fc4', '#7a4a00', '#6b4fc8'],
  rest: '#7d8590',
}

export const DARK: Palette = {
  back: '#10141a',
  panel: '#191f27',
  text: '#e6e9ed',
  faint: '#9da7b3',
  line: '#313a45',
  border: '#7d8793',
  link: '#7ab4ff',
  passed: '#5b9bea',
  discarded: '#f58a42',
  excluded: '#8b949e',
  series: ['#5aa2f0', '#f59a4c', '#35b795', '#ef86c4', '#9ad4f5', '#d1a35a', '#b09cf8'],
  rest: '#8b949e',
}

/** The look of the page, and the patterns that tell series apart without colours. */

const variables = ({ series, ...named }: Palette) =>
  [...Object.entries(named), ...series.map((colour, i) => [`s${i}`, colour])]
    .map(([name, colour]) => `--${name}: ${colour};`)
    .join(' ')

const SERIES = LIGHT.series.map((_, i) => `s${i}`)
const DASHES = ['none', '7 3', '2 3', '9 3 2 3', '14 4', '1 5']

/** Stripes, dots and lines in the colour of the background over that of the series; the first series is plain. */
const PATTERNS: Readonly<Record<string, { readonly turn?: number; readonly shapes: string }>> = {
  s1: { turn: 45, shapes: '<rect width="2" height="6"/>' },
  s2: { shapes: '<circle cx="3" cy="3" r="1.5"/>' },
  s3: { shapes: '<rect width="6" height="2"/>' },
  s4: { turn: -45, shapes: '<rect width="3" height="6"/>' },
  s5: { turn: 45, shapes: '<rect width="6" height="1.3"/><rect width="1.3" height="6"/>' },
  s6: { shapes: '<rect width="6" height="3"/>' },
  rest: { shapes: '<rect width="3" height="3"/><rect x="3" y="3" width="3" height="3"/>' },
  discarded: { turn: 45, shapes: '<rect width="2" height="6"/>' },
  excluded: { shapes: '<rect width="3" height="3"/><rect x="3" y="3" width="3" height="3"/>' },
}

/** An invisible picture with the patterns, to which the styles refer. */
export const PATTERN_DEFINITIONS = `<svg class="patterns" width="0" height="0" aria-hidden="true"><defs>${Object.entries(
  PATTERNS,
)
  .map(([name, { turn, shapes }]) => {
    const turned = turn === undefined ? '' : ` patternTransform="rotate(${turn})"`
    const ground = `<rect class="ground-${name}" width="6" height="6"/>`
    return `<pattern id="pattern-${name}" width="6" height="6" patternUnits="userSpaceOnUse"${turned}>${ground}${shapes}</pattern>`
  })
  .join('')}</defs></svg>`

const FILLS = ['passed', 'discarded', 'excluded', ...SERIES, 'rest']
  .map(name =>
    PATTERNS[name]
      ? `.ground-${name} { fill: var(--${name}) } rect.${name} { fill: url(#pattern-${name}) }`
      : `rect.${name} { fill: var(--${name}) }`,
  )
  .join('\n')

const CURVES = DASHES.map(
  (dashes, i) =>
    `line.c${i} { stroke: var(--s${i}); stroke-width: 2; stroke-dasharray: ${dashes} } path.m${i} { fill: var(--s${i}) }`,
).join('\n')

/** The style sheet. `texts` selects the cells of tables that are aligned to the left; `cards` is their style on a phone. */
export const styleSheet = (texts: string, cards: string) => `
:root { color-scheme: light dark; ${variables(LIGHT)} }
@media screen and (prefers-color-scheme: dark) { :root { ${variables(DARK)} } }
@media print { :root { color-scheme: light } }
* { box-sizing: border-box }
[hidden] { display: none !important }
body { margin: 0 auto; max-width: 64rem; padding: 1.5rem 1rem 4rem; background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 } h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem } h3 { font-size: 1rem; margin: 0 }
p { margin: .5rem 0 } a { color: var(--link) }
.note, caption, summary, dt { color: var(--faint) } .note { font-size: .875rem }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px }
.totals { display: flex; flex-wrap: wrap; gap: .75rem 2.25rem; margin: 1rem 0; padding: 0; list-style: none }
.totals b { display: block; font-size: 1.5rem; line-height: 1.2; font-variant-numeric: tabular-nums } .totals span { color: var(--faint) }
.totals li { border-left: .35rem solid var(--line); padding-left: .6rem }
.totals .passed { border-color: var(--passed) } .totals .discarded { border-color: var(--discarded) } .totals .excluded { border-color: var(--excluded) }
figure { margin: 1.5rem 0; break-inside: avoid } figure h3 { margin-bottom: .5rem }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: 0 0 .75rem; padding: 0; list-style: none; font-size: .875rem } .legend li { overflow-wrap: anywhere }
.swatch { width: 1.1rem; height: .9rem; margin-right: .4rem; vertical-align: -.1rem } .swatch.long { width: 2.5rem }
.patterns { position: absolute } pattern > * { fill: var(--back) }
${FILLS}
.frame { padding: .75rem 0 1.75rem 4rem }
.plot { display: block; width: 100%; height: 240px; overflow: visible } .plot svg, .swatch svg { overflow: visible }
.plot text { fill: var(--faint); font-size: 12px } .plot line:not([class]), .plot line.mark { stroke: var(--line) }
${CURVES}
circle.knee { fill: none; stroke: var(--text); stroke-width: 2 } .plot text.knee { fill: var(--text); font-weight: 600; stroke: var(--back); stroke-width: 4px; paint-order: stroke }
.knees { margin: .5rem 0; padding-left: 1.25rem }
details { margin: .5rem 0 } summary { cursor: pointer; font-size: .875rem; width: fit-content }
.scroll { overflow-x: auto; margin-top: .5rem }
table { border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums }
caption { text-align: left; padding: .5rem 0 }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap } th { font-weight: 600 }
th:first-child, th.text, ${texts} { text-align: left } tbody th { min-width: 8rem }
tbody th, tfoot th { font-weight: 400; white-space: normal; overflow-wrap: anywhere } tfoot > tr:first-child > * { border-top: 2px solid var(--border) }
thead { color: var(--faint) } tr { break-inside: avoid }
button.more { font: inherit; font-size: .875rem; color: var(--link); background: none; border: 1px solid var(--border); border-radius: .3rem; padding: .3rem .75rem; margin: .75rem 0; cursor: pointer }
.sorts button { all: unset; box-sizing: border-box; cursor: pointer; padding: .15rem 0; min-height: 1.6rem } .sorts button:focus-visible { outline: 3px solid var(--link); outline-offset: 2px }
.sorts button:hover { color: var(--text); text-decoration: underline }
[aria-sort] { color: var(--text) } [aria-sort=ascending] button::after { content: " ▲"; content: " ▲" / "" } [aria-sort=descending] button::after { content: " ▼"; content: " ▼" / "" }
.controls { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: baseline; margin: 1rem 0 }
.controls label { display: flex; flex-wrap: wrap; gap: .25rem .5rem; align-items: baseline }
input, select { font: inherit; max-width: 100%; padding: .3rem .5rem; color: var(--text); background: var(--panel); border: 1px solid var(--border); border-radius: .3rem }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .35rem 1.5rem; margin: 0 } dd { margin: 0; overflow-wrap: anywhere }
pre { background: var(--panel); padding: .75rem 1rem; overflow-x: auto; font-size: .875rem; white-space: pre-wrap }
@media screen and (max-width: 44rem) {
.wide { display: none } .frame { padding-left: 3.25rem }
dl { grid-template-columns: minmax(0, 1fr); gap: 0 } dd { margin-bottom: .6rem }
}
@media screen and (max-width: 60rem) {
.sorts, .sorts thead, .sorts tbody, .sorts tfoot, .sorts caption { display: block }
.sorts thead tr { display: flex; flex-wrap: wrap; gap: 0 1rem; border-bottom: 2px solid var(--border) } .sorts thead th { border: 0; padding: .1rem 0 } .sorts thead tr:has(button)::before { content: "Sort by:"; padding-top: .25rem }
.sorts tbody tr, .sorts tfoot tr { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: 0 1.25rem; padding: .4rem 0; border-bottom: 1px solid var(--line) }
.sorts tbody th, .sorts tfoot th { grid-column: 1 / -1; font-weight: 600; border: 0; padding: .1rem 0 }
.sorts td { display: flex; justify-content: space-between; gap: .5rem; border: 0; padding: .05rem 0 } .sorts td:empty { display: none } .sorts td::before { color: var(--faint) }
${cards}
}
@media print {
body { max-width: none; padding: 0; font-size: 11pt } table { font-size: 8pt } th, td { padding: .2rem .3rem } .controls, .more, details:not([open]) { display: none } h2, h3 { break-after: avoid } a { color: inherit; text-decoration: none }
}
@media (forced-colors: active) {
rect, path, pattern > * { forced-color-adjust: none } .plot text { fill: CanvasText } .plot line { stroke: CanvasText }
}
`
