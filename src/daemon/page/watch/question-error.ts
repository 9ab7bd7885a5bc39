import { Refusal } from '../../../net/http/server/refusal.js'

/** A question that cannot be answered. */
export class QuestionError extends Refusal {
  /** `message`: for the user. */
  constructor(message: string) {
    super(400, 'invalid', message)
  }
}
