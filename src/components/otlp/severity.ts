/** Severity numbers of the OpenTelemetry data model, by the words that loggers write. */
export const SEVERITY_NUMBERS: ReadonlyMap<string, number> = new Map(
  Object.entries({
    ...{ trace: 1, verbose: 1, debug: 5, info: 9, information: 9, informational: 9, notice: 10, warn: 13, warning: 13 },
    ...{ error: 17, err: 17, severe: 17, critical: 18, crit: 18, dpanic: 18, alert: 19, panic: 19 },
    ...{ fatal: 21, emergency: 21, emerg: 21, d: 5, i: 9, w: 13, e: 17, f: 21 },
  }),
)
/** Severity numbers of the syslog levels 0 (emergency) to 7 (debug). */
const SYSLOG = [21, 19, 18, 17, 13, 10, 9, 5]
/** Severity numbers of the levels of Node.js loggers: 10 (trace), 20, … 60 (fatal). */
const TENS = [1, 5, 9, 13, 17, 21]

export const severityOfWord = (word: string): number | undefined => SEVERITY_NUMBERS.get(word.toLowerCase())

export const severityOfNumber = (number: number): number | undefined =>
  SYSLOG[number] ?? TENS[Math.floor(number / 10) - 1]
