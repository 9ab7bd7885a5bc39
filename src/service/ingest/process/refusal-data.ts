import { Refusal } from '../../../net/http/server/refusal.js'
import type { RefusalData } from './messages.js'

/** Refusals on their way from one process to the other. */

export function dataOfRefusal({ status, code, message, headers, close }: Refusal): RefusalData {
  return { status, code, message, headers, close }
}

export function refusalOf({ status, code, message, headers, close }: RefusalData): Refusal {
  return new Refusal(status, code, message, headers, close)
}
