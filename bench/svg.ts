/** What all pictures of the benchmarks share: the frame, the colours in light and dark, and text. */

export interface Picture {
  readonly width: number
  readonly height: number
  /** What is read out instead of the picture. */
  readonly title: string
  /** CSS besides that of all pictures. */
  readonly style: string
  /** The same where the reader prefers dark colours. */
  readonly dark: string
  readonly content: readonly string[]
}

/** Colours of events, their limit and an axis, and the same in dark. */
export const EVENT_COLOURS = {
  light: `
  .axis { stroke: #d1d9e0 }
  .passed { fill: #0969da }
  .discarded { fill: #bc4c0088 }
  .limit { stroke: #1f2328; stroke-dasharray: 5 4 }`,
  dark: `
    .axis { stroke: #3d444d }
    .passed { fill: #4493f8 }
    .discarded { fill: #f0883e88 }
    .limit { stroke: #f0f6fc }`,
}

export function svg({ width, height, title, style, dark, content }: Picture): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="name">
<title id="name">${escaped(title)}</title>
<style>
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .back { fill: #fff }
  .title { font-weight: 600 }
  .note { fill: #59636e }
  ${style}
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .back { fill: #0d1117 }
    .note { fill: #9198a1 }
    ${dark}
  }
</style>
<rect class="back" width="${width}" height="${height}"/>
${content.join('\n')}
</svg>
`
}

export function svgText(x: number, y: number, text: string, style = '', anchor = 'start'): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" class="${style}" text-anchor="${anchor}">${escaped(text)}</text>`
}

export function svgLine(style: string, x1: number, y1: number, x2: number, y2: number): string {
  return `<line class="${style}" x1="${x1.toFixed(1)}" y1="${y1.toFixed(1)}" x2="${x2.toFixed(1)}" y2="${y2.toFixed(1)}"/>`
}

/** A bar; empty if it has no height or no width. */
export function svgBar(style: string, x: number, y: number, width: number, height: number): string {
  if (width <= 0 || height <= 0) return ''
  return `<rect class="${style}" x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${width.toFixed(1)}" height="${height.toFixed(1)}"/>`
}

/** A square in the color of `style` and its name, from `x` on the line of a text. */
export function svgKey(x: number, y: number, style: string, name: string): string {
  return `${svgBar(style, x, y - 10, 11, 11)}${svgText(x + 16, y, name)}`
}

export function escaped(text: string): string {
  return text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;')
}
