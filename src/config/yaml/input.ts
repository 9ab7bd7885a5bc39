import { type OnError, outputNames, type Plan } from '../../core/processor.js'

/** Splits `limit_app.discarded` into its id and side output. */
export function splitInput(text: string): [id: string, output: string | undefined] {
  const dot = text.indexOf('.')
  return dot === -1 ? [text, undefined] : [text.slice(0, dot), text.slice(dot + 1)]
}

/** The side outputs of a processor. */
export function outputsOf({ plan, onError }: { readonly plan?: Plan; readonly onError?: OnError }): string[] {
  return plan && onError ? outputNames(plan, onError) : []
}
