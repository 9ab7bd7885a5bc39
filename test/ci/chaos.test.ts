import t from 'tap'
import { performIn } from '../chaos/case.js'
import { makeScenario } from '../chaos/generate.js'
import { Model } from '../chaos/model.js'
import { PLAIN, type Scenario, type Setup } from '../chaos/scenario.js'
import { shrink } from '../chaos/shrink.js'
import { type Arrival, type Content, Failure, type Line } from '../chaos/written.js'

/** A few short runs, and whether the machine would notice what it looks for. */

t.jobs = 2
for (const seed of [1, 2]) {
  t.test(`seed ${seed}`, async t => {
    const { counts } = await performIn(t, makeScenario(seed, 20))
    t.ok(counts.starts >= 2 && counts.lines > 0)
  })
}

/** A model of one file with some lines, and a way to let them arrive. */
function written(lines: number, setup: Partial<Setup> = {}) {
  const model = new Model({ ...PLAIN, ...setup })
  const content = model.newContent()
  const made: Line[] = []
  for (let i = 0; i < lines; i++) made.push(model.makeLine(content, i, 20))
  model.wrote(
    content,
    made,
    made.reduce((sum, { bytes }) => sum + bytes.length, 0),
  )
  const start = (clean: boolean, committed: number, drained = true) => {
    const end = made.slice(0, committed).reduce((sum, { bytes }) => sum + bytes.length, 0)
    const sizes = new Map([[content, content.size]])
    model.started({ clean, drained, from: new Map([[content, end]]), sizes })
  }
  let requests = 0
  const arrive = (numbers: number[], arrival: Partial<Arrival> = {}) => {
    const texts = numbers.map(i => made[i]!.text)
    model.arrived({ life: model.lives, number: ++requests, clear: true, ...arrival }, texts)
  }
  start(false, 0)
  return { model, content, made, start, arrive }
}

type Written = ReturnType<typeof written>

t.test('the model sees what is wrong, and only that', async t => {
  const cases: [what: string, kind: string | undefined, act: (run: Written) => void][] = [
    ['all of it, in order', undefined, ({ arrive }) => void [[0, 1], [2], [3, 4]].map(numbers => arrive(numbers))],
    ['one is missing', 'lost', ({ arrive }) => arrive([0, 1, 3, 4])],
    ['one comes too late', 'order', ({ arrive }) => arrive([0, 2, 1, 3, 4])],
    [
      'a request that was given up is handled after the next one',
      undefined,
      ({ arrive }) => {
        arrive([2, 3, 4], { number: 20 })
        arrive([0, 1], { number: 10 })
      },
    ],
    ['one comes twice', 'repeated', ({ arrive }) => arrive([0, 1, 1, 2, 3, 4])],
    [
      'again after an unclear answer',
      undefined,
      ({ arrive }) => {
        arrive([0, 1], { clear: false })
        arrive([0, 1, 2, 3, 4])
      },
    ],
    [
      'again after a kill, as far as the checkpoint does not cover it',
      undefined,
      ({ arrive, start }) => {
        arrive([0, 1, 2])
        start(false, 1)
        arrive([1, 2, 3, 4])
      },
    ],
    [
      'again after a kill, though the checkpoint covers it',
      'repeated',
      ({ arrive, start }) => {
        arrive([0, 1, 2])
        start(false, 1)
        arrive([0, 1, 2, 3, 4])
      },
    ],
    [
      'again after an end in order',
      'repeated',
      ({ arrive, start }) => {
        arrive([0, 1, 2])
        start(true, 1)
        arrive([1, 2, 3, 4])
      },
    ],
    [
      'again after a lost checkpoint, from the copy that a truncation left',
      undefined,
      ({ model, content, arrive }) => {
        arrive([0, 1, 2, 3, 4])
        const copy = model.copy(content)
        model.truncated(content)
        const [from, sizes] = [new Map([[copy, 0]]), new Map([[copy, copy.size]])]
        model.started({ clean: false, drained: true, from, sizes })
        arrive([0, 1, 2, 3, 4])
      },
    ],
    ['nobody wrote it', 'damaged', ({ model }) => model.arrived({ life: 1, number: 1, clear: true }, ['f0.0 x'])],
    [
      'one letter is another',
      'damaged',
      ({ model, made }) => {
        const text = made[0]!.text.replace(/.$/, last => (last === '0' ? '1' : '0'))
        model.arrived({ life: 1, number: 1, clear: true }, [text])
      },
    ],
    [
      'a dead letter that was not refused',
      'invented',
      ({ model, made, arrive }) => {
        arrive([0, 1, 2, 3])
        model.deadLetter(made[4]!.text)
      },
    ],
    [
      'a dead letter that was refused',
      undefined,
      ({ model, made, arrive }) => {
        arrive([0, 1, 2, 3])
        model.refused([made[4]!.text])
        model.deadLetter(made[4]!.text)
      },
    ],
    [
      'what was truncated need not come',
      undefined,
      ({ model, content, arrive }) => {
        arrive([0, 1])
        model.truncated(content)
      },
    ],
    [
      'what was excused must come once it can be read after all',
      'lost',
      ({ model, content, arrive }) => {
        arrive([0, 1])
        model.excuse(content, 'away')
        model.insist(content)
      },
    ],
  ]
  for (const [what, kind, act] of cases) {
    const run = written(5)
    let found: unknown
    try {
      act(run)
      run.model.verify()
    } catch (error) {
      found = error instanceof Failure ? error.kind : error
    }
    t.equal(found, kind, what)
  }
})

t.test('with a disk buffer, what was in it at a kill may be read again later', async t => {
  for (const [killed, kind] of [
    [true, undefined],
    [false, 'repeated'],
  ] as const) {
    const { model, arrive, start } = written(5, { buffer: 'disk' })
    arrive([0])
    // From the buffer; the source came only to the second line before an end in order.
    start(!killed, 1)
    arrive([1, 2, 3, 4])
    start(true, 2)
    // All was read again, and is in the buffer.
    start(false, 5)
    arrive([2, 3, 4])
    let found: unknown
    try {
      model.verify()
    } catch (error) {
      found = error instanceof Failure ? error.kind : error
    }
    t.equal(found, kind)
  }
})

t.test('what was in a disk buffer at a kill may be read again from a copy of its file, two starts later', async t => {
  for (const [killed, kind] of [
    [true, undefined],
    [false, 'repeated'],
  ] as const) {
    const { model, content, arrive, start } = written(5, { buffer: 'disk' })
    start(true, 5)
    // It ends before its source has read anything.
    start(!killed, 0)
    const copy = model.copy(content)
    model.truncated(content)
    const begun = (drained: boolean) => {
      const [from, sizes] = [new Map([[copy, 0]]), new Map([[copy, copy.size]])]
      model.started({ clean: true, drained, from, sizes })
      arrive([0, 1, 2, 3, 4])
    }
    begun(false)
    begun(true)
    let found: unknown
    try {
      model.verify()
    } catch (error) {
      found = error instanceof Failure ? error.kind : error
    }
    t.equal(found, kind)
  }
})

t.test('what a killed daemon delivered from its disk buffer may come again as long as that is not empty', async t => {
  for (const [killed, left, kind] of [
    [true, true, undefined],
    [true, false, 'repeated'],
    [false, true, 'repeated'],
  ] as const) {
    const { model, arrive, start } = written(5, { buffer: 'disk' })
    start(true, 0)
    arrive([0, 1, 2, 3, 4])
    start(!killed, 5, !left)
    // It reaches nobody, and ends in order.
    start(true, 5, !left)
    arrive([0, 1, 2, 3, 4])
    let found: unknown
    try {
      model.verify()
    } catch (error) {
      found = error instanceof Failure ? error.kind : error
    }
    t.equal(found, kind, `${killed ? 'killed' : 'not killed'}, ${left ? 'something' : 'nothing'} left`)
  }
})

t.test('an unfinished line must wait, and its pieces make a whole', async t => {
  const torn = (setup: Partial<Setup>): [Model, Content, Line] => {
    const model = new Model({ ...PLAIN, ...setup })
    const content = model.newContent()
    const line = model.makeLine(content, 0, 50)
    model.wrote(content, [line], 30)
    return [model, content, line]
  }
  const arrival = { life: 1, number: 1, clear: true }
  const [patient, , early] = torn({})
  t.throws(() => patient.arrived(arrival, [early.text.slice(0, 30)]), /a piece of the unfinished line f0\.0/)
  const [model, content, line] = torn({ partialMs: 40 })
  model.arrived(arrival, [line.text.slice(0, 30)])
  model.wrote(content, [line], line.bytes.length - 30)
  t.equal(model.waiting().length, 1)
  model.arrived(arrival, [line.text.slice(40)])
  t.equal(model.waiting().length, 1, 'a piece is missing')
  model.arrived(arrival, [line.text.slice(30, 40)])
  t.equal(model.waiting().length, 0)
})

t.test('a line whose first piece was destroyed in the disk buffer cannot become whole', async t => {
  for (const isKept of [true, false]) {
    const model = new Model({ ...PLAIN, buffer: 'disk', partialMs: 40 })
    const content = model.newContent()
    const line = model.makeLine(content, 0, 50)
    model.wrote(content, [line], 30)
    if (isKept) model.keep(content, 30)
    model.destroyed()
    model.wrote(content, [line], line.bytes.length - 30)
    model.arrived({ life: 1, number: 1, clear: true }, [line.text.slice(30)])
    t.equal(model.waiting().length, isKept ? 0 : 1)
  }
})

t.test('a failing scenario is cut down to what it needs', async t => {
  const big = makeScenario(7, 60)
  const kinds = new Set(big.steps.map(step => step.do))
  t.ok(kinds.has('append') && kinds.has('restart'))
  const fails = async ({ steps }: Scenario) => {
    const restart = steps.findLastIndex(step => step.do === 'restart')
    return restart > 0 && steps.slice(0, restart).some(step => step.do === 'append')
  }
  t.ok(await fails(big))
  const { setup, steps } = await shrink(big, fails, () => false)
  t.same(setup, PLAIN)
  t.match(steps, [{ do: 'append', lines: 1, tear: 0 }, { do: 'restart' }])
  t.equal(steps.length, 2)
})
