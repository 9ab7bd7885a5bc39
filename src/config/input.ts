/** `limit_app.discarded` as its id and its side output. */
export function splitInput(text: string): [id: string, outlet: string | undefined] {
  const dot = text.indexOf('.')
  return dot === -1 ? [text, undefined] : [text.slice(0, dot), text.slice(dot + 1)]
}
