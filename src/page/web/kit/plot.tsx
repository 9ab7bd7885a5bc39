import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import { theme } from './theme.js'
import { clock, shortNumber } from './words.js'

type Values = readonly (number | null)[]

export interface PlotCurve {
  readonly label: string
  readonly values: Values
  /** A colour of the style sheet, such as `accent`. */
  readonly colour: string
  readonly dash?: number[]
  readonly isArea?: boolean
}

interface Props {
  readonly label: string
  /** Milliseconds since 1970. */
  readonly at: readonly number[]
  readonly curves: readonly PlotCurve[]
  readonly height?: number
}

/** On the axis of a longer plot, times do not have seconds. */
const LONG_MS = 1_800_000

/** The value of a colour of the style sheet in the current theme. */
function colourOf(element: HTMLElement, name: string): string {
  element.style.color = `var(--${name})`
  const { color } = getComputedStyle(element)
  element.style.color = ''
  return color
}

/** Minimum number of values to recognize a short burst. */
const ENOUGH = 30

/**
 * Returns the end of the axis. `bend`: after a short burst, the value above which the axis is logarithmic. Otherwise,
 * all other values would look like zero.
 */
function axisOf(curves: readonly PlotCurve[]): { readonly top: number; readonly bend?: number } {
  const all = curves.flatMap(({ values }) => values.filter(value => value !== null)).sort((a, b) => b - a)
  const most = all[0] ?? 0
  // A burst is in each curve, and in several values of each.
  const usual = all[Math.max(curves.length, Math.floor(all.length / 10))] ?? 0
  if (all.length < ENOUGH || usual === 0 || most <= 5 * usual) return { top: most }
  return { top: most, bend: 10 ** Math.floor(Math.log10(usual)) }
}

/** Returns 0 and the powers of ten from `least`, which is one of them. */
function powersFrom(least: number, most: number): number[] {
  const all = [0]
  for (let power = least; power <= most; power *= 10) all.push(power)
  return all
}

/**
 * Draws curves over time, in colours of the theme. Dashes or areas distinguish the curves, too. The caption has the
 * values at the pointer, otherwise the last values.
 */
export function Plot({ label, at, curves, height = 180 }: Props) {
  const box = useRef<HTMLDivElement>(null)
  const [pointed, point] = useState<number | null | undefined>()
  const pointedAt = at[pointed ?? -1]
  const plot = useRef<uPlot>(undefined)
  const data = [at, ...curves.map(({ values }) => values)] as unknown as uPlot.AlignedData
  const { top, bend } = axisOf(curves)
  const most = useRef(top)
  most.current = top
  const isLong = (at.at(-1) ?? 0) - (at[0] ?? 0) > LONG_MS
  const shape = `${isLong} ${bend} ${theme.value} ${height} ${curves.map(curve => curve.label)}`
  useLayoutEffect(() => {
    const element = box.current!
    const colour = (name: string) => colourOf(element, name)
    const axis = { stroke: colour('dim'), font: '11px ui-monospace, monospace', ticks: { show: false } }
    const grid = { stroke: colour('line'), width: 1 }
    plot.current = new uPlot(
      {
        width: element.clientWidth || 300,
        height,
        ms: 1,
        padding: [8, 28, 0, 0],
        legend: { show: false },
        hooks: { setCursor: [({ cursor }) => point(cursor.idx)] },
        cursor: { points: { show: false }, drag: { x: false, y: false } },
        scales: {
          x: { time: true },
          y: {
            range: () => [0, Math.max(1, most.current * 1.05)],
            ...(bend !== undefined && { distr: 4, asinh: bend }),
          },
        },
        axes: [
          {
            ...axis,
            grid: { show: false },
            size: 24,
            space: 64,
            values: (_, ticks) => ticks.map(tick => clock(tick).slice(-8, isLong ? -3 : undefined)),
          },
          {
            ...axis,
            grid,
            size: 44,
            values: (_, ticks) => ticks.map(shortNumber),
            ...(bend !== undefined && { splits: () => powersFrom(bend, most.current), filter: (_, ticks) => ticks }),
          },
        ],
        series: [
          {},
          ...curves.map(curve => ({
            label: curve.label,
            stroke: colour(curve.colour),
            width: curve.isArea ? 0 : 1.5,
            ...(curve.dash && { dash: curve.dash }),
            ...(curve.isArea && { fill: colour(curve.colour) }),
            points: { show: false },
          })),
        ],
      },
      data,
      element,
    )
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height }))
    resized.observe(element)
    return () => {
      resized.disconnect()
      plot.current?.destroy()
    }
  }, [shape])
  useLayoutEffect(() => plot.current?.setData(data), [at, ...curves.map(({ values }) => values)])
  return (
    <figure class="plot">
      <figcaption>
        <span>
          {label}
          {pointedAt !== undefined && <b class="number">, at {clock(pointedAt)}</b>}
          {bend !== undefined && `; the axis is logarithmic above ${shortNumber(bend)}`}
        </span>
        {curves.map(({ label: name, colour, dash, isArea, values }) => (
          <span key={name} class="key">
            <svg width="22" height="10" aria-hidden="true">
              {isArea ? (
                <rect width="22" height="10" fill={`var(--${colour})`} />
              ) : (
                <line
                  x2="22"
                  y1="5"
                  y2="5"
                  stroke={`var(--${colour})`}
                  stroke-width="2"
                  stroke-dasharray={dash?.join(' ')}
                />
              )}
            </svg>{' '}
            {name} <span class="number">{last(pointedAt === undefined ? values : [values[pointed!] ?? null])}</span>
          </span>
        ))}
      </figcaption>
      <div
        ref={box}
        role="img"
        aria-label={`${label}: ${curves.map(one => `${one.label} ${described(one.values)}`).join('; ')}`}
      />
    </figure>
  )
}

function last(values: Values): string {
  const value = values.findLast(one => one !== null)
  return value === undefined || value === null ? '–' : shortNumber(value)
}

function described(values: Values): string {
  return `at most ${shortNumber(Math.max(0, ...values.map(value => value ?? 0)))}, last ${last(values)}`
}

/** Draws a small curve in a line of text. */
export function Spark({ values, label, width = 72 }: { values: Values; label: string; width?: number }) {
  const most = Math.max(...values.map(value => value ?? 0), 1e-9)
  const step = width / Math.max(1, values.length - 1)
  let path = ''
  let from = 0
  for (const [i, value] of values.entries()) {
    if (value === null) continue
    const y = (15 - (value / most) * 14).toFixed(1)
    const isFirst = i === 0 || values[i - 1] === null
    if (isFirst) from = i
    path += isFirst ? `M${(i * step).toFixed(1)} 16V${y}` : `L${(i * step).toFixed(1)} ${y}`
    if (i === values.length - 1 || values[i + 1] === null) path += `V16H${(from * step).toFixed(1)}`
  }
  return (
    <svg
      class="spark"
      width={width}
      height="16"
      viewBox={`0 0 ${width} 16`}
      role="img"
      aria-label={`${label}: ${described(values)}`}
    >
      <path d={path} />
    </svg>
  )
}
