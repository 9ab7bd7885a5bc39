import { Refusal } from '../../../net/http/server/refusal.js'

export class QuestionError extends Refusal {
  constructor(message: string) {
    super(400, 'invalid', message)
  }
}
