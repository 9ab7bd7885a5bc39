import { Refusal } from '../../../net/http/server/refusal.js'

export class QuestionError extends Refusal {
  /** `message`: for the user. */
  constructor(message: string) {
    super(400, 'invalid', message)
  }
}
