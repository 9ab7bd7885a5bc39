import type { EventBatch } from '../../src/core/event/batch.js'

/**
 * What an event is known by, wherever it appears: `#a17#` is number 17 of topic a, `#a17x#` a part of it. An event that was made of
 * several has the marks of all of them.
 */

const MARK = /#([a-z]\d+[xy]?)#/g

export const markOf = (topic: string, number: number, part = '') => `${topic}${number}${part}`

/** The marks in a text, in order. */
export function marksIn(text: string): string[] {
  return Array.from(text.matchAll(MARK), found => found[1]!)
}

/** The marks of event `i`. */
export function marksOf(batch: EventBatch, i: number): string[] {
  const fields = batch.fields(i)
  // What another destination refused has its event inside.
  return marksIn(typeof fields.id === 'string' ? fields.id : JSON.stringify(fields))
}

export const numberIn = (mark: string) => Number.parseInt(mark.slice(1), 10)
