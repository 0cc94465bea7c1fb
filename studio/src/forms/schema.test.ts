import { describe, expect, it } from 'vitest';
import { begin, fields, read, type Schema } from './schema';

const schema: Schema = {
  type: 'object',
  required: ['term', 'risk'],
  properties: {
    notes: { type: 'string', maxLength: 2000 },
    renews: { type: 'boolean' },
    risk: { type: 'string', enum: ['low', 'high'] },
    start: { type: 'string', format: 'date' },
    tags: { type: 'array' },
    term: { type: 'integer', minimum: 1, maximum: 120, title: 'Term' },
  },
};
const list = fields(schema);

describe('a form from JSON Schema', () => {
  it('asks for what is needed first, each with its control', () => {
    expect(list.map(({ name, control }) => [name, control])).toEqual([
      ['risk', 'choice'], ['term', 'integer'], ['notes', 'long'], ['renews', 'boolean'], ['start', 'date'], ['tags', 'json'],
    ]);
  });
  it('sends what was typed with its type and leaves empty fields out', () => {
    const { values, wrong } = read(list, { ...begin(list), risk: '"low"', term: ' 12 ', tags: '["a"]' });
    expect(wrong).toEqual({});
    expect(values).toEqual({ risk: 'low', term: 12, renews: false, tags: ['a'] });
  });
  it('names every field that is wrong', () => {
    expect(read(list, { term: '0', tags: '{' }).wrong).toEqual({ risk: 'is needed', term: 'is at least 1', tags: 'is JSON, such as {"a": 1} or ["a"]' });
    expect(read(list, { risk: '"low"', term: '1.5' }).wrong).toEqual({ term: 'is a whole number' });
  });
});
