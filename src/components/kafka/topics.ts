import type { ComponentContext } from '../../core/component.js'
import { RequestTexts } from '../../core/partition.js'
import type { KafkaOptions } from './options.js'

const LONGEST_TOPIC = 249

/** A request has only events of one topic. */
export const topicsOf = ({ topic }: KafkaOptions, { field }: Pick<ComponentContext, 'field'>) =>
  new RequestTexts([{ option: 'topic', template: topic, problem: topicProblem }], field)

function topicProblem(topic: string): string | undefined {
  if (topic.length > LONGEST_TOPIC) return `is longer than ${LONGEST_TOPIC} characters`
  return /^[\w.-]+$/.test(topic) && !/^\.\.?$/.test(topic) ? undefined : `is not the name of a topic: ${topic}`
}
