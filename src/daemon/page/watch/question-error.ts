import { Refusal } from '../../../net/http/server/refusal.js'

/** A question that cannot be answered. */
export class QuestionError extends Refusal {
  /** `message` is for the one who asks. */
  constructor(message: string) {
    super(400, 'invalid', message)
  }
}
