/**
 * Loaded before the program: the wall clock starts at the same time in every run, and so do the windows of the calendar.
 * Random numbers are the same in every run.
 */
const BEGIN = Date.parse('2031-03-04T05:10:00.500Z')
const RealDate = Date
const shift = BEGIN - RealDate.now()

globalThis.Date = class extends RealDate {
  constructor(...args: [] | [string | number | Date]) {
    if (args.length === 0) super(RealDate.now() + shift)
    else super(...(args as [number]))
  }

  static override now(): number {
    return RealDate.now() + shift
  }
} as DateConstructor

let state = 1
Math.random = () => {
  state = Math.imul(state, 48_271) % 0x7fff_ffff
  return Math.abs(state) / 0x7fff_ffff
}
