import type { Slots } from '../result.js'
import { timeText } from '../table.js'
import { round } from './markup.js'

/** Ticks of the axes. Pictures have a fixed height in pixels and the width of the page, so places across are in percent. */

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const TIME_STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map(n => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map(n => n * MINUTE),
  ...[1, 2, 3, 6, 12].map(n => n * HOUR),
  ...[1, 2, 7, 14, 30, 90, 365, 3650, 36_500].map(n => n * DAY),
]
const TIME_TICKS = 6
/** The last time that a Date can have; the first one is its negative. */
const LAST_DATE = 8.64e15
const VALUE_TICKS = 4
/** The least distance of labels, as a part of the width: on a screen, and on a phone. */
const APART = 0.1
const APART_ON_PHONE = 0.24
/** Closer to an end of the axis than this, a label would stand out beyond the picture. */
const NEAR_END = 0.08

export interface Tick {
  /** From 0 to 1. */
  readonly at: number
  readonly label: string
}

/** Values from 0 to at least `most`, in steps of 1, 2 or 5 times a power of ten, of `least` at least. */
export function valueTicks(most: number, least: number): number[] {
  const rough = Math.max(most / VALUE_TICKS, least)
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = power * ([1, 2, 5].find(factor => factor * power >= rough * 0.999_999) ?? 10)
  const count = Math.max(1, Math.ceil(most / step - 1e-9))
  return Array.from({ length: count + 1 }, (_, i) => i * step)
}

/** The start of a slot; the first one may begin before all dates. */
export function startText({ start, slot_ms }: Slots, slot: number): string {
  return timeText(Math.max(start + slot * slot_ms, -LAST_DATE))
}

/** Full seconds, minutes, hours or days (UTC) from `startMs` on. */
export function timeTicks(startMs: number, lengthMs: number): Tick[] {
  const step = TIME_STEPS.find(step => lengthMs / step <= TIME_TICKS) ?? lengthMs
  const ticks: Tick[] = []
  const endMs = Math.min(startMs + lengthMs, LAST_DATE)
  for (let time = Math.ceil(Math.max(startMs, -LAST_DATE) / step) * step; time <= endMs; time += step) {
    const iso = timeText(time)
    const [date = '', clock = ''] = iso.split('T')
    const label = step >= DAY || time % DAY === 0 ? date : clock.slice(0, step < SECOND ? -1 : step < MINUTE ? -5 : -8)
    ticks.push({ at: (time - startMs) / lengthMs, label })
  }
  return ticks
}

/** Lines and labels across the picture for values; `y` gives their height in pixels. */
export function valueAxis(values: readonly number[], y: (value: number) => number, label: (value: number) => string) {
  return values.map(
    value =>
      `<line x1="0" x2="100%" y1="${y(value)}" y2="${y(value)}"/>` +
      `<text x="-8" y="${y(value) + 4}" text-anchor="end">${label(value)}</text>`,
  )
}

/** Marks and labels below the picture; labels that would touch are left out. `height` is that of the picture. */
export function bottomAxis(ticks: readonly Tick[], height: number): string[] {
  let last = Number.NEGATIVE_INFINITY
  let lastOnPhone = Number.NEGATIVE_INFINITY
  return ticks.map(({ at, label }) => {
    const x = `${round(at * 100)}%`
    const mark = `<line class="mark" x1="${x}" x2="${x}" y1="${height}" y2="${height + 5}"/>`
    if (at - last < APART) return mark
    last = at
    const isOnPhone = at - lastOnPhone >= APART_ON_PHONE
    if (isOnPhone) lastOnPhone = at
    const anchor = at > 1 - NEAR_END ? 'end' : at < NEAR_END ? 'start' : 'middle'
    const screenOnly = isOnPhone ? '' : ' class="wide"'
    return `${mark}<text${screenOnly} x="${x}" y="${height + 20}" text-anchor="${anchor}">${label}</text>`
  })
}
