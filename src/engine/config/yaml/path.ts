const PLAIN_NAME = /^[\p{L}\p{N}_$@-]+$/u

/** Returns a text such as `processors.limit_app.inputs[0]`. */
export function pathText(path: Path): string {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`
    else {
      const name = PLAIN_NAME.test(step) ? step : JSON.stringify(step)
      text += text ? `.${name}` : name
    }
  }
  return text
}
export const SECTIONS = { source: 'sources', processor: 'processors', destination: 'destinations' } as const

export type Path = readonly (string | number)[]
