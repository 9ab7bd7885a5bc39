/** Colours of the report, for light and dark. Text has a contrast of at least 4.5 with its background, shapes of 3. */

export interface Palette {
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
